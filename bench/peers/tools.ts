// The tools, and how each is called: with its defaults, and as its experts would.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loader } from '../programs.ts'

const script = (name: string): string => fileURLToPath(new URL(name, import.meta.url))

export type Place = {
  /** Where the programs of the virtual environment lie. */
  readonly programs: string
  /** For what a tool keeps beside Postgres; empty at the start of each load. */
  readonly directory: string
  readonly upstream: string
  readonly url: string
  readonly recordCount: number
  readonly pageSize: number
}
export type Pipe = {
  /** Each of these programs reads what the one before prints. */
  readonly commands: readonly (readonly string[])[]
  readonly environment: Readonly<Record<string, string>>
}
export type Tool = {
  readonly name: string
  /** What it leaves in Postgres. */
  readonly makes: string
  readonly table: string
  pipe(place: Place): Promise<Pipe>
}

export const tidemark = (name: string, readers: number): Tool => ({
  ...{ name, makes: 'one row a key, typed, indexed', table: 'mirror.assignment' },
  pipe: async ({ upstream, url, pageSize }) => {
    const { words, environment } = loader({ url }, upstream, 'incremental', { pageSize, readers })
    return { commands: [words], environment }
  },
})

export const dlt = (
  mode: 'defaults' | 'arrow' | 'merge' | 'parallel',
  name: string,
  makes: string,
): Tool => ({
  ...{ name, makes, table: 'dlt.assignment' },
  pipe: async ({ programs, directory, upstream, url, recordCount, pageSize }) => {
    const words = [mode, upstream, withPassword(url), String(recordCount), String(pageSize)]
    return {
      commands: [[join(programs, 'python'), script('./load_dlt.py'), ...words]],
      environment: { DLT_DATA_DIR: directory },
    }
  },
})

/** It takes no address without one. */
const withPassword = (url: string): string => {
  const parsed = new URL(url)
  return Object.assign(parsed, { password: parsed.password || 'none' }).href
}

// What its documentation has for speed: COPY, larger batches, and nothing checked or added that was not asked for.
const bestTarget = {
  use_copy: true,
  batch_size_rows: 50_000,
  validate_records: false,
  add_record_metadata: false,
  activate_version: false,
}

export const singer = (isBest: boolean, name: string, makes: string): Tool => ({
  ...{ name, makes, table: 'singer.assignment' },
  pipe: async ({ programs, directory, upstream, url, pageSize }) => {
    const [tap, target] = [join(directory, 'tap.json'), join(directory, 'target.json')]
    await writeFile(tap, JSON.stringify({ upstream, page_size: pageSize, is_best: isBest }))
    const settings = {
      sqlalchemy_url: url.replace(/^postgres(ql)?:/, 'postgresql+psycopg:'),
      default_target_schema: 'singer',
      ...(isBest ? bestTarget : {}),
    }
    await writeFile(target, JSON.stringify(settings))
    return {
      commands: [
        [join(programs, 'python'), script('./tap.py'), '--config', tap],
        [join(programs, 'target-postgres'), '--config', target],
      ],
      environment: { LOGLEVEL: 'ERROR' },
    }
  },
})
