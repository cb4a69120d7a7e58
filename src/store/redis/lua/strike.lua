-- Takes contexts out of an id's entry, as far as nobody has entered them anew.
-- KEYS: the id's entry. ARGV: pairs of field and value.
for at = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[at]) == ARGV[at + 1] then
    redis.call('HDEL', KEYS[1], ARGV[at])
  end
end
return 1
