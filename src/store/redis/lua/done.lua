-- Removes a notification from the outbox, or puts it off.
-- KEYS: see outbox.rs. ARGV: its id; when it is due again, or '' where it is done.
local newest, lanes, heads, due, tries, lane, body = unpack(KEYS)
local id = ARGV[1]
local called = redis.call('HGET', lane, id)
if not called then
  return 0
end
local head = redis.call('ZREM', heads, id) == 1
if ARGV[2] ~= '' then
  redis.call('HSET', due, id, ARGV[2])
  redis.call('HINCRBY', tries, id, 1)
  if head then
    redis.call('ZADD', heads, ARGV[2], id)
  end
  return 1
end
for _, part in ipairs({due, tries, lane, body}) do
  redis.call('HDEL', part, id)
end
local name = string.format('%d:%s:', #called, called)
redis.call('ZREM', lanes, name .. string.format('%020d', id))
if head then
  local next = redis.call('ZRANGEBYLEX', lanes, '[' .. name, '(' .. name .. '~', 'LIMIT', 0, 1)[1]
  if next then
    local following = string.gsub(string.sub(next, #name + 1), '^0+', '')
    redis.call('ZADD', heads, redis.call('HGET', due, following), following)
  end
end
return 1
