// What the bench rests on: its upstream of millions, and a clear word where the other tools cannot be installed.

import { chmod, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { preparePython } from '../../bench/peers/python.ts'
import { repeatRecords } from '../../bench/static-records.ts'

describe('records that are repeated', () => {
  it('have each a key and a version of their own, in order, on whatever page they come', async () => {
    const records = await repeatRecords('recorded', 20, 1_000)
    const read = (bytes: Buffer | null): readonly { assignmentId: number; sysRowVersion: number }[] =>
      JSON.parse(`[${bytes}]`)
    const all = [
      ...read(records.range(0, 7)),
      ...read(records.range(7, 90)),
      ...read(records.range(90, 1_000)),
    ]
    const first = all[0]?.assignmentId ?? 0
    expect(all.map(({ assignmentId }) => assignmentId)).toEqual(all.map((_, index) => first + index))
    expect(all.map(({ sysRowVersion }) => records.rankOf(sysRowVersion))).toEqual(
      all.map((_, index) => index + 1),
    )
    expect(read(records.byKey(first + 41))).toEqual([all[41]])
    expect(records.byKey(first + 1_000)).toBeNull()
    expect([records.rankOf(0), records.rankOf(1e12)]).toEqual([0, 1_000])
  })
})

describe('the other tools', () => {
  let directory = ''
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'tidemark-bench-test-'))
  })
  afterEach(() => rm(directory, { recursive: true, force: true }))

  /** A python3 that does this. */
  async function pythonThat(does: string): Promise<string> {
    const program = join(directory, 'python3')
    await writeFile(program, `#!/bin/sh\n${does}\n`)
    await chmod(program, 0o755)
    return program
  }
  const wanted = 'bench:peers needs python3 with its venv module (Debian: apt install python3-venv)'

  it('need a python3', async () => {
    await expect(preparePython(join(directory, 'venv'), join(directory, 'none'))).rejects.toThrow(wanted)
  })

  it('need its venv module, and leave no half of an environment behind', async () => {
    const python = await pythonThat('mkdir "$3"; echo ensurepip is not available >&2; exit 1')
    const venv = join(directory, 'venv')
    await expect(preparePython(venv, python)).rejects.toThrow(wanted)
    await expect(stat(venv)).rejects.toThrow('ENOENT')
  })

  it('need PyPI, and one line says so', async () => {
    const pip = 'echo Retrying >&2; echo "ERROR: No matching distribution found for dlt" >&2; exit 1'
    const python = await pythonThat(
      `mkdir -p "$3/bin"; printf '#!/bin/sh\\n%s\\n' '${pip}' > "$3/bin/python"; chmod +x "$3/bin/python"`,
    )
    await expect(preparePython(join(directory, 'venv'), python)).rejects.toThrow(
      'bench:peers needs PyPI to install dlt and singer-sdk: ERROR: No matching distribution found for dlt',
    )
  })
})
