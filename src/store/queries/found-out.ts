// What was found out about streams that the settings add.

import type { ClientBase } from 'pg'
import { addedStreams, type FoundOut, noteFoundOut } from '../../streams/catalog.ts'

/** Reads what other programs found out about these streams into this one, and returns it. Does nothing where the settings add none. */
export async function learnAddedStreams(
  client: Pick<ClientBase, 'query'>,
): Promise<ReadonlyMap<string, FoundOut>> {
  const names = addedStreams().map(({ name }) => name)
  if (names.length === 0) return new Map()
  const { rows } = await client.query<{ name: string; found: FoundOut }>(
    'select name, found_out as found from tidemark.stream where name = any ($1) and found_out is not null',
    [names],
  )
  const known = new Map(rows.map(({ name, found }) => [name, found]))
  noteFoundOut(known)
  return known
}
