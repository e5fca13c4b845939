// npm run migrate:new -- --name what-it-does: writes the next migration from the described tables. The newest snapshot is all that
// drizzle-kit compares with, so the older ones go.

import { spawnSync } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'

const meta = new URL('../migrations/meta/', import.meta.url)

const { status } = spawnSync('drizzle-kit', ['generate', ...process.argv.slice(2)], { stdio: 'inherit' })
const snapshots = readdirSync(meta).filter((name) => name.endsWith('_snapshot.json'))
for (const older of snapshots.sort().slice(0, -1)) rmSync(new URL(older, meta))
process.exit(status ?? 1)
