// Records that cannot be rows.

import { z } from 'zod'
import { expectEntry, selectionOf } from '../operator/quarantine.ts'
import { readQuarantine } from '../store/book/quarantine.ts'
import { snakeCased } from '../util/text.ts'
import { amount, document, type Facts, id, list, page, streamName, time } from './document.ts'

const entry = z
  .object({
    id,
    stream: z.string(),
    reason: z.string(),
    key: z.string().nullable().describe('its key; null: it has no usable one, or no longer exists upstream'),
    first_seen_at: time,
    last_seen_at: time,
    times_seen: amount,
    record: z.string().describe('its JSON'),
  })
  .meta({ id: 'QuarantineEntry' })

/** A record may have megabytes, and a list a thousand of them (P10). */
const mostCharacters = 20_000

export const quarantine = document({
  path: '/quarantine',
  title:
    'Records that cannot be stored as rows; where more than one is asked for, of each its first 20,000 characters',
  asked: z.strictObject({ stream: streamName.optional(), id: id.optional(), ...page(100) }),
  answer: list(entry),
  async read({ pool, catalogue }: Pick<Facts, 'pool' | 'catalogue'>, { stream, limit, ...asked }) {
    const selection = { ...selectionOf(stream, catalogue), ...(asked.id && { id: BigInt(asked.id) }) }
    await expectEntry(pool, selection)
    const most = selection.id === null && limit > 1 ? { mostCharacters } : {}
    const found = await readQuarantine(pool, selection, { after: asked.cursor ?? '0', limit, ...most })
    return found.map(({ text, repeatedText: _, ...rest }) => ({ ...snakeCased(rest), record: text }))
  },
  cursorOf: (one: z.output<typeof entry>) => one.id,
})
