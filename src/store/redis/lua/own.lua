-- Enters a context as one of its owner's, and takes out those that are long gone.
-- KEYS: the owner's entry. ARGV: now; the context; from when on those are kept that nobody entered since; how long the entry is kept, in
-- milliseconds.
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
