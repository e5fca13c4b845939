// What happened lately, in words.

import { type Fact, type Happened, readHappenings } from '../store/book/happenings.ts'
import { capitalized, count, formatDuration, plural } from '../util/text.ts'

export type Happening = Omit<Happened, 'fact'> & {
  readonly tone: '' | 'warn' | 'bad'
  readonly text: string
}

export async function readHappeningsInWords(
  ...asked: Parameters<typeof readHappenings>
): Promise<readonly Happening[]> {
  const found = await readHappenings(...asked)
  return found.map(({ fact, ...one }) => ({ ...one, tone: tones[fact.what] ?? '', text: inWords(fact) }))
}

const tones: Partial<Record<Fact['what'], Happening['tone']>> = {
  'late commit': 'warn',
  quarantined: 'bad',
  'failed run': 'bad',
}

function inWords(fact: Fact): string {
  switch (fact.what) {
    case 'late commit':
      return `A late commit was caught: it became visible ${formatDuration(fact.lateMs)} after its version had been passed`
    case 'quarantined':
      return `A record went into quarantine: ${fact.reason}`
    case 'audit': {
      const { kind, note, inserted, updated, markedDeleted } = fact
      // A verification wrote nothing: what it found is told.
      if (kind === 'verify') return capitalized(note ?? 'verified')
      return `${capitalized(kind)}: ${count(inserted)} new, ${count(updated)} changed, ${count(markedDeleted)} marked deleted`
    }
    case 'failed run': {
      const kind = fact.kind.replace('lookback', 'look-back')
      return `${/^[aeiou]/.test(kind) ? 'An' : 'A'} ${kind} run failed`
    }
    case 'action':
      return `${fact.who}: ${fact.told}${fact.reason === null ? '' : ` “${fact.reason}”`}`
    case 'return': {
      const { problem, lastedMs } = fact
      return `${nameOf(problem)} works again after ${formatDuration(lastedMs)}${readSince(fact)}`
    }
  }
}

/** Nothing was missed is said of what was shown: all is read again, and late changes and deletions have been looked for since (P18). */
function readSince({ unread, unsettled }: Extract<Fact, { readonly what: 'return' }>): string {
  const named = (streams: readonly string[]) =>
    streams.length > mostNamed ? plural(streams.length, 'stream') : streams.join(', ')
  if (unread === null) return ''
  if (unread.length > 0) return `; not read again yet: ${named(unread)}`
  if (unsettled.length > 0)
    return `; all is read again, late changes or deletions are still to be looked for in ${named(unsettled)}`
  return '; nothing was missed'
}
const mostNamed = 3

const nameOf = (problem: string): string => {
  const name = problem.slice(problem.indexOf(':') + 1)
  if (!problem.startsWith('part_down:')) return `The ${name} service`
  return name === 'database' ? 'Postgres' : 'The queue'
}
