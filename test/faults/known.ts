// All faults, in the order in which they are tried.

import { postgresAwayAtStart, redisAwayAtStart } from './away-at-start.ts'
import { failover } from './failover.ts'
import { fullDisk } from './full-disk.ts'
import { absurdRetryAfter, endlessBody, gzipBomb } from './huge-answers.ts'
import { manyWorkers } from './many-workers.ts'
import { newDatabase } from './new-database.ts'
import { poolerAway } from './pooler.ts'
import { queuePaused } from './queue-paused.ts'
import { redisCluster } from './redis-cluster.ts'
import { redisReplica } from './redis-replica.ts'
import { redisRights } from './redis-rights.ts'
import { redisFrozen, redisSentinel } from './redis-sentinel.ts'
import { schemaDropped } from './schema-dropped.ts'
import { smallPool } from './small-pool.ts'
import type { Fault } from './stage.ts'
import { standby } from './standby.ts'
import { transactionPooling } from './transaction-pooling.ts'

export const known: readonly Fault[] = [
  transactionPooling,
  smallPool,
  poolerAway,
  redisReplica,
  redisSentinel,
  redisFrozen,
  redisCluster,
  redisRights,
  queuePaused,
  schemaDropped,
  redisAwayAtStart,
  postgresAwayAtStart,
  manyWorkers,
  fullDisk,
  standby,
  failover,
  newDatabase,
  endlessBody,
  gzipBomb,
  absurdRetryAfter,
]
