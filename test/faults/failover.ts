// Two clusters of Postgres with streaming replication: postgres-failover.ts has the trial.

import { postgresFailover } from './postgres-failover.ts'
import type { Fault } from './stage.ts'

export const failover: Fault = {
  name: 'postgres fails over to its standby',
  needs: ['pg_basebackup'],
  async try() {
    const lines: string[] = []
    await postgresFailover((text) => void lines.push(text))
    return lines.join('; ')
  },
}
