-- Takes notifications that are due, the oldest of each lane, and keeps others from taking them for a while.
-- KEYS: see outbox.rs. ARGV: now, until, at most so many. Of each: id, lane, due, tries, body.
local newest, lanes, heads, due, tries, lane, body = unpack(KEYS)
local taken = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', heads, '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])) do
  redis.call('ZADD', heads, ARGV[2], id)
  taken[#taken + 1] = {
    id, redis.call('HGET', lane, id), redis.call('HGET', due, id), redis.call('HGET', tries, id) or '0', redis.call('HGET', body, id)
  }
end
return taken
