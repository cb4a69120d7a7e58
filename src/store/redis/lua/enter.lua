-- Enters contexts under an id.
-- KEYS: the id's entry. ARGV: how long it is kept, in milliseconds; how many of the pairs that follow are entered only where the id is unknown;
-- pairs of field and value. What was entered before.
local before = redis.call('HGETALL', KEYS[1])
local first = 3
if #before > 0 then
  first = first + 2 * tonumber(ARGV[2])
end
for at = first, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return before
