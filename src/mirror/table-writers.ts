// The page writers of one run, one for each table that it writes, with what each table's dictionary is to be told at the end.

import type { ClientBase } from 'pg'
import type { MirroredStream } from '../streams.ts'
import { type Dictionary, startDictionary } from './dictionary.ts'
import type { Tally } from './page-encoding.ts'
import type { PageWriter } from './page-writer.ts'

export type Writers = {
  /** Opened when it is first asked for. */
  of(table: MirroredStream, keyField: () => string | null): PageWriter
  settled(): Promise<void>
  close(): void
  flushDictionaries(client: Pick<ClientBase, 'query'>): Promise<void>
}

export function openWriters(
  start: (
    table: MirroredStream,
    keyField: () => string | null,
    onTally: (tally: Tally) => void,
  ) => PageWriter,
): Writers {
  const opened = new Map<string, { readonly writer: PageWriter; readonly dictionary: Dictionary }>()
  return {
    of(table, keyField) {
      const known = opened.get(table.name)
      if (known) return known.writer
      const dictionary = startDictionary()
      const writer = start(table, keyField, dictionary.count)
      opened.set(table.name, { writer, dictionary })
      return writer
    },
    async settled() {
      for (const { writer } of opened.values()) await writer.settled()
    },
    close() {
      for (const { writer } of opened.values()) writer.close()
    },
    async flushDictionaries(client) {
      for (const [name, { dictionary }] of opened) await dictionary.flush(client, name)
    },
  }
}
