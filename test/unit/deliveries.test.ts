// Deliveries of webhooks start readings, also when a connection to Postgres hangs meanwhile.

import { expect, it } from 'vitest'
import { openLog } from '../../src/log.ts'
import { knownStreams } from '../../src/streams/catalog.ts'
import { openDeliveries } from '../../src/worker/deliveries.ts'

it('starts a reading when nobody says in time which streams are paused, once somebody does', async () => {
  let asked = 0
  const requested: string[] = []
  const deliveries = openDeliveries({
    streams: () => knownStreams.filter(({ name }) => name === 'assignment'),
    paused: () => (++asked === 1 ? new Promise(() => {}) : Promise.resolve(new Set<string>())),
    requestRun: async ({ stream, cause }) => void requested.push(`${stream} ${cause}`),
    log: openLog({ level: 'fatal' }),
  })
  deliveries.announce('')
  await expect.poll(() => requested, { timeout: 5_000 }).toEqual(['assignment webhook'])
  deliveries.close()
})
