-- Writes what changed in a context, if nobody else changed it meanwhile.
-- KEYS: its head, its turns. ARGV: the version that it had ('' for none); the version that it has from now on; how long it is kept unused, in
-- milliseconds; 'keep' or 'drop' (what was there goes first); then, for each key, how many fields follow to be set (name and value), how many to
-- be deleted (name), and these.
-- 1: written, now or by an earlier try; 0: it had another version.
local version = redis.call('HGET', KEYS[1], 'v') or ''
if version == ARGV[2] then
  return 1
end
if version ~= ARGV[1] then
  return 0
end
if ARGV[4] == 'drop' then
  redis.call('DEL', KEYS[1], KEYS[2])
end
local at = 5
for _, key in ipairs(KEYS) do
  local sets, deletes = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  at = at + 2
  for _ = 1, sets do
    redis.call('HSET', key, ARGV[at], ARGV[at + 1])
    at = at + 2
  end
  for _ = 1, deletes do
    redis.call('HDEL', key, ARGV[at])
    at = at + 1
  end
end
redis.call('HSET', KEYS[1], 'v', ARGV[2])
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[3])
end
return 1
