// `npm run mutate [words]`: makes each fault in a copy of the checkout and runs the test that must notice. Ends with 1 when one
// was not noticed. Words pick the mutations whose names hold them.

import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Mutation } from './mutation.ts'
import { promiseMutations } from './promise-mutations.ts'
import { readingMutations } from './reading-mutations.ts'

const checkout = fileURLToPath(new URL('../..', import.meta.url))
const copied = [
  'src',
  'test',
  'migrations',
  'bin',
  'package.json',
  'tsconfig.json',
  'vitest.config.ts',
  'docs',
  '.env.example',
]

const words = process.argv.slice(2).join(' ')
const chosen = [...promiseMutations, ...readingMutations].filter(({ name }) => name.includes(words))
let missed = 0
for (const mutation of chosen) {
  const wasNoticed = notices(mutation)
  if (!wasNoticed) missed += 1
  process.stdout.write(
    `${wasNoticed ? 'noticed' : 'MISSED '}  ${mutation.promise}  ${mutation.name}  (${mutation.test})\n`,
  )
}
process.stdout.write(`${chosen.length - missed} of ${chosen.length} noticed\n`)
process.exitCode = missed === 0 && chosen.length > 0 ? 0 : 1

function notices({ file, find, replace, test }: Mutation): boolean {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-mutation-'))
  try {
    for (const name of copied) cpSync(join(checkout, name), join(directory, name), { recursive: true })
    symlinkSync(join(checkout, 'node_modules'), join(directory, 'node_modules'))
    const text = readFileSync(join(directory, file), 'utf8')
    if (text.split(find).length !== 2) throw new Error(`${file} does not hold exactly once: ${find}`)
    writeFileSync(
      join(directory, file),
      text.replace(find, () => replace),
    )
    const { status } = spawnSync('npx', ['vitest', 'run', test], {
      cwd: directory,
      stdio: 'ignore',
      env: { ...process.env, KEEP_TEST_DATABASES: 'no' },
    })
    return status !== 0
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
