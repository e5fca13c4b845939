// The page writers of one run, one for each table that it writes, and the counts for each table's dictionary, which are stored at the end.

import type { MirroredStream } from '../../streams/catalog.ts'
import type { Queryable } from '../server/session.ts'
import type { Dictionary } from './dictionary.ts'
import { type Outcome, type PageWriter, startPageWriter, type WriterOptions } from './page-writer.ts'

export type Writers = ReturnType<typeof openWriters>

export function openWriters(
  options: Omit<WriterOptions, 'keyField' | 'onCommit'> & {
    readonly onCommit: (table: string, outcome: Outcome) => void
    readonly dictionaryOf: (table: string) => Dictionary
  },
) {
  const opened = new Map<string, { readonly writer: PageWriter; readonly dictionary: Dictionary }>()
  return {
    /** Opened when it is first asked for. */
    of(table: MirroredStream, keyField: () => string | null): PageWriter {
      const known = opened.get(table.name)
      if (known) return known.writer
      const dictionary = options.dictionaryOf(table.name)
      const writer = startPageWriter({
        ...options,
        stream: table,
        keyField,
        connections: table.name === options.stream.name ? options.connections : 1,
        onCommit(outcome) {
          options.onCommit(table.name, outcome)
          if (outcome.tally) dictionary.count(outcome.tally)
        },
      })
      opened.set(table.name, { writer, dictionary })
      return writer
    },
    async settled(): Promise<void> {
      for (const { writer } of opened.values()) await writer.settled()
    },
    close(): void {
      for (const { writer } of opened.values()) writer.close()
    },
    /** `isIdle`: nothing changed. */
    async flushDictionaries(client: Queryable, isIdle: boolean): Promise<void> {
      for (const [name, { dictionary }] of opened)
        await dictionary[isIdle ? 'flushNowAndThen' : 'flush'](client, name)
    },
  }
}
