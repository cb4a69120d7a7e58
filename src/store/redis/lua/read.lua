-- A context as it is, in one step.
-- KEYS: its head, its turns. ARGV: the version that the caller has; 'whole' or 'head'; which record the caller has and up to which turn.
-- Nothing where there is none; the version alone where it is the caller's; else the version, the head, turns, and the first of them.
local version = redis.call('HGET', KEYS[1], 'v')
if not version then
  return {}
end
if version == ARGV[1] then
  return {version}
end
local head = redis.call('HGETALL', KEYS[1])
if ARGV[2] == 'head' then
  return {version, head, {}, '0'}
end
local known = redis.call('HMGET', KEYS[1], 's', 'n', 'a')
if known[1] ~= ARGV[3] or not known[2] then
  return {version, head, redis.call('HGETALL', KEYS[2]), '0'}
end
-- A turn that settled never changes: only those behind the caller's are read, and those that were kept apart.
local fields = {}
for number = tonumber(ARGV[4]) + 1, tonumber(known[2]) do
  fields[#fields + 1] = tostring(number)
end
for ordinal in string.gmatch(known[3], '%d+') do
  fields[#fields + 1] = 'a' .. ordinal
end
local turns = {}
for _, field in ipairs(fields) do
  local turn = redis.call('HGET', KEYS[2], field)
  if turn then
    turns[#turns + 1] = field
    turns[#turns + 1] = turn
  end
end
return {version, head, turns, ARGV[4]}
