-- Puts a notification into the outbox.
-- KEYS: see outbox.rs. ARGV: lane, due, body. Its id.
local newest, lanes, heads, due, tries, lane, body = unpack(KEYS)
local id = redis.call('INCR', newest)
redis.call('HSET', lane, id, ARGV[1])
redis.call('HSET', due, id, ARGV[2])
redis.call('HSET', body, id, ARGV[3])
-- Members of one lane are in the order of their ids.
local name = string.format('%d:%s:', #ARGV[1], ARGV[1])
local first = #redis.call('ZRANGEBYLEX', lanes, '[' .. name, '(' .. name .. '~', 'LIMIT', 0, 1) == 0
redis.call('ZADD', lanes, 0, name .. string.format('%020d', id))
if first then
  redis.call('ZADD', heads, ARGV[2], id)
end
return id
