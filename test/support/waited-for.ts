// How a test knows that another connection has come to where it cannot go on.

import type { ClientBase } from 'pg'
import { expect } from 'vitest'

/** Somebody waits for what this connection has locked. */
export const waitedFor = (client: ClientBase): Promise<void> =>
  expect
    .poll(
      async () =>
        (
          await client.query(
            // Looked at anew: a transaction keeps what it has seen of the others.
            'select from pg_stat_clear_snapshot(), pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid)) limit 1',
          )
        ).rowCount,
    )
    .toBe(1)
