// The disk of Postgres, a small file system in memory, becomes full, and room is made again.

import { join } from 'node:path'
import { startPostgres } from '../soak/worlds.ts'
import { keepLittle, mountSmallDisk } from '../support/small-disk.ts'
import { begunWell, type Fault, tryFault } from './stage.ts'

const diskMb = 300

export const fullDisk: Fault = {
  name: 'the disk of postgres is full',
  needs: ['mount'],
  async try(stage) {
    const disk = mountSmallDisk(join(stage.directory, 'disk'), diskMb)
    stage.defer(async () => disk.leave())
    const postgres = await startPostgres(disk.path)
    stage.defer(() => postgres.stop().catch(() => {}))
    await keepLittle(postgres.url)
    const databaseUrl = postgres.url
    const worker = await stage.startWorker({ DATABASE_URL: databaseUrl })
    await begunWell(stage, { worker, databaseUrl })
    return await tryFault(stage, {
      ...{ worker, databaseUrl },
      begin: async () => disk.fill(),
      async end() {
        disk.makeRoom()
        // It may have gone down for want of room.
        await postgres.control('status').catch(() => postgres.start())
      },
      sentence: /Postgres does not work/,
    })
  },
}
