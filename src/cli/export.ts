// `tidemark export`: writes tables as files, whole or what changed since the export before.

import { withRelated } from '../documents/document.ts'
import { exportFormats, exportTables } from '../export/tables.ts'
import { pickStreams } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { plural } from '../util/text.ts'
import { type Command, json, oneOf, option, textOf } from './command.ts'
import { readMirror } from './mirror.ts'
import { noteLookHere } from './recorded.ts'

export const exportCommand: Command = {
  name: 'export',
  summary: 'write the tables as CSV or Parquet files, whole or what changed',
  usage: 'DIR [stream…] [--format csv|parquet] [--since POSITION] [--json]',
  options: {
    format: option('FORMAT', 'csv (the default) or parquet'),
    since: option(
      'POSITION',
      'only rows that changed since then, deleted ones included: the position in the manifest.json of an earlier export',
    ),
    json,
  },
  examples: [
    'tidemark export monday',
    'tidemark export monday assignment assignment_note --format parquet',
    'tidemark export tuesday --since 751000',
  ],
  async run(call) {
    const { values, stdout, signal } = call
    const [directory, ...names] = call.positionals
    if (!directory)
      throw new UsageError('Name the directory to write, which is made anew: `tidemark export DIR`.')
    const format = oneOf(values, 'format', exportFormats) ?? 'csv'
    const since = textOf(values, 'since')
    if (values.since !== undefined && !/^\d{1,18}$/.test(since ?? ''))
      throw new UsageError(
        `--since must be the position in the manifest.json of an earlier export, a whole number, not "${values.since}".`,
      )
    const streams = pickStreams(names, withRelated(call.catalogue))
    return await readMirror(call, async (pool) => {
      await noteLookHere({ pool, log: call.log }, 'An export.')
      const manifest = await exportTables({ pool, directory, streams, format, since, signal })
      const missing = names.filter((name) => !manifest.tables.some(({ stream }) => stream === name))
      if (values.json) return stdout.json(manifest)
      const rows = manifest.tables.reduce((sum, table) => sum + table.rows, 0)
      stdout.say(
        `${directory}: ${plural(rows, 'row')} of ${plural(manifest.tables.length, 'table')}, as ${format === 'csv' ? 'CSV' : 'Parquet'}.`,
      )
      if (missing.length > 0) stdout.say(`Nothing is mirrored yet of ${missing.join(', ')}.`)
      stdout.say(`For what changes from now on: tidemark export OTHER_DIR --since ${manifest.position}`)
    })
  },
}
