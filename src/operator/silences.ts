// Muting alerts until a time, acknowledging a problem, and ending either.

import { isNews, problemKinds } from '../problems/stream-problems.ts'
import { endSilence, noteSilence, readOpenKeys } from '../store/book/silences.ts'
import { UsageError } from '../util/errors.ts'
import { formatDuration, nearest, parseDuration, utcMinute } from '../util/text.ts'
import type { MirrorContext, Order, Outcome } from './mirror-actions.ts'
import { timeIn } from './positions.ts'

const longestMs = 30 * 24 * 3_600_000

async function mute(context: MirrorContext, { target, fields, by }: Order): Promise<Outcome> {
  const reason = reasonIn(fields, 'Say why: whoever sees the problem sees the reason, too.')
  const until = endIn(fields, new Date())
  const muted = await targetIn(context, target)
  await noteSilence(context.pool, { target: muted, until, reason, by })
  return {
    text: `No alerts${muted === 'all' ? '' : ` of ${targetInWords(muted)}`} are sent until ${utcMinute(until)}. Whoever was told of a problem still hears when it is over.`,
    json: { target: muted, until, reason },
  }
}

async function acknowledge({ pool }: MirrorContext, { target, fields, by }: Order): Promise<Outcome> {
  const reason = reasonIn(
    fields,
    'Say what you know of it, or what is done: others see the comment with the problem.',
  )
  const known = await readOpenKeys(pool)
  if (!known.includes(target)) throw new UsageError(noSuch(target, known))
  await noteSilence(pool, { target, until: null, reason, by })
  const until = isNews(target.replace(/:.*/, '')) ? 'any more' : 'until it is over or gets worse'
  return {
    text: `${target} is acknowledged: no alert of it is sent ${until}.`,
    json: { target, acknowledged: true, reason },
  }
}

async function unmute(context: MirrorContext, { target }: Order): Promise<Outcome> {
  const named = [target, `kind:${target}`, `stream:${target}`]
  for (const one of named) {
    const ended = await endSilence(context.pool, one)
    if (ended !== null)
      return { text: `Alerts of ${targetInWords(one)} are sent again.`, json: { target: one, muted: false } }
  }
  throw new UsageError(
    `${target.slice(0, 100)} is neither muted nor acknowledged. \`tidemark alerts list\` shows what is.`,
  )
}

export const silenceActions = { muteAlerts: mute, unmuteAlerts: unmute, acknowledgeProblem: acknowledge }

function reasonIn({ reason }: Order['fields'], otherwise: string): string {
  if (reason === undefined || reason === '') throw new UsageError(otherwise, { field: 'reason' })
  return reason.slice(0, 500)
}

function endIn({ for: span, until }: Order['fields'], now: Date): Date {
  const mistake = (what: string) =>
    new UsageError(
      `Nothing was muted: ${what} A mute ends within 30 days, such as after 2h (for) or at 2026-03-02T18:00Z (until).`,
      { field: until === undefined ? 'for' : 'until' },
    )
  if ((span === undefined) === (until === undefined)) throw mistake('say when it ends, in one way.')
  const spanMs = span === undefined ? 0 : parseDuration(span)
  if (spanMs === null) throw mistake(`"${span?.slice(0, 40)}" is no time.`)
  const end = until === undefined ? new Date(now.getTime() + spanMs) : timeIn(until, 'until')
  const leftMs = end.getTime() - now.getTime()
  if (leftMs <= 0) throw mistake('that time is over.')
  if (leftMs > longestMs) throw mistake(`${formatDuration(leftMs)} is too long.`)
  return end
}

const kinds: readonly string[] = problemKinds

/** `all`, a kind, a stream, or the key of a problem that there is. */
async function targetIn({ pool, streams }: MirrorContext, word: string): Promise<string> {
  const names = streams.map(({ name }) => name)
  const isKind = kinds.includes(word.replace(/^kind:/, ''))
  const isStream = names.includes(word.replace(/^stream:/, ''))
  if (word === 'all' || /^(?:kind|stream):/.test(word)) {
    if (word === 'all' || (word.startsWith('kind:') ? isKind : isStream)) return word
  } else if (isKind && isStream) {
    const both = `${word} is a kind of problem and a stream: write kind:${word} or stream:${word}.`
    throw new UsageError(both, { field: 'target' })
  } else if (isKind || isStream) return `${isKind ? 'kind' : 'stream'}:${word}`
  const open = await readOpenKeys(pool)
  if (open.includes(word)) return word
  throw new UsageError(noSuch(word, [...open, ...kinds, ...names, 'all']), { field: 'target' })
}

function noSuch(word: string, known: readonly string[]): string {
  const [near] = nearest(word, known)
  const advice = near === undefined ? '`tidemark alerts list` shows all problems.' : `Did you mean ${near}?`
  return `There is no problem ${word.slice(0, 100)} now. ${advice}`
}

export const targetInWords = (target: string): string =>
  target === 'all' ? 'everything' : target.replace(/^kind:/, 'the kind ').replace(/^stream:/, 'the stream ')
