// One message about what began and what is over, as the receiver's kind of chat takes it. Text of the upstream is made harmless:
// no mentions, no links, no secrets, and never more than fits (P9).

import { redact } from '../log.ts'
import type { Alert } from '../store/admin/alert-book.ts'
import { backoff, delayAfter } from '../util/backoff.ts'
import { formatDuration } from '../util/text.ts'
import { eventsLastMs, isNews, type Problem, runbookOf } from './stream-problems.ts'

type News = { readonly begun: readonly Alert[]; readonly over: readonly Alert[]; readonly now: Date }
type Section = { readonly title: string; readonly lines: readonly string[] }

const mostLines = 10
const longestLine = 500

/** Teams takes cards only, behind these hosts; all else takes what Slack does. */
const teamsHosts = /(^|\.)(logic\.azure\.(com|us)|api\.powerplatform\.(com|us)|webhook\.office\.com)$/

export function alertBody(url: string, news: News): string {
  const sections = sectionsOf(news)
  return JSON.stringify(teamsHosts.test(new URL(url).hostname) ? forTeams(sections) : forSlack(sections))
}

function sectionsOf({ begun, over, now }: News): readonly Section[] {
  const needs = begun.filter(({ kind }) => !isNews(kind))
  const lastedMs = ({ since, goneSince }: Alert) => (goneSince ?? now).getTime() - since.getTime()
  return [
    {
      title:
        needs.length === 1 ? 'Tidemark: a problem needs you' : `Tidemark: ${needs.length} problems need you`,
      lines: needs.map(lineOf),
    },
    { title: 'Tidemark: good to know', lines: begun.filter(({ kind }) => isNews(kind)).map(lineOf) },
    {
      title: over.length === 1 ? 'Tidemark: a problem is over' : `Tidemark: ${over.length} problems are over`,
      lines: over.map((alert) => `Over after ${formatDuration(lastedMs(alert))}: ${harmless(alert.what)}`),
    },
  ]
    .filter(({ lines }) => lines.length > 0)
    .map(({ title, lines }) => ({ title, lines: bounded(lines) }))
}

const lineOf = ({ kind, what, whatToDo }: Alert): string =>
  `${harmless(what)} → ${harmless(whatToDo)} More: ${runbookOf(kind)}`

const bounded = (lines: readonly string[]): readonly string[] =>
  lines.length <= mostLines
    ? lines
    : [...lines.slice(0, mostLines), `and ${lines.length - mostLines} more: \`tidemark status\``]

/** A character of no width takes apart what a chat would make a mention or a link of. */
const apart = '\u200b'

function harmless(text: string): string {
  const clean = redact(text)
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/\p{Cf}/gu, '')
  const short = clean.length <= longestLine ? clean : `${clean.slice(0, longestLine).toWellFormed()}…`
  return short
    .replaceAll('@', `@${apart}`)
    .replaceAll('://', `:${apart}//`)
    .replaceAll('](', `]${apart}(`)
    .replaceAll(/\.(?=\p{L})/gu, `.${apart}`)
}

const forSlack = (sections: readonly Section[]) => ({
  text: sections
    .map(({ title, lines }) => [`*${title}*`, ...lines.map((line) => `• ${escaped(line)}`)].join('\n'))
    .join('\n\n'),
  unfurl_links: false,
  unfurl_media: false,
})

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

/** Text runs are shown as they are, without Markdown. */
const forTeams = (sections: readonly Section[]) => ({
  type: 'message',
  attachments: [
    {
      contentType: 'application/vnd.microsoft.card.adaptive',
      contentUrl: null,
      content: {
        $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
        type: 'AdaptiveCard',
        version: '1.4',
        msteams: { width: 'Full' },
        body: sections.flatMap(({ title, lines }) => [
          textRun(title, { weight: 'Bolder', size: 'Medium' }),
          ...lines.map((line) => textRun(line, {})),
        ]),
      },
    },
  ],
})

const textRun = (text: string, look: Readonly<Record<string, string>>) => ({
  type: 'RichTextBlock',
  inlines: [{ type: 'TextRun', text, ...look }],
})

// Which problems are alerted of, and when: once when one has lasted for a while, once when it has been over for a while. Pure.
export type AlertPlan = {
  /** All that stay known, as they are now. */
  readonly known: readonly Alert[]
  /** Of them, those to send an alert about: that they began, or that they are over. */
  readonly begun: readonly Alert[]
  readonly over: readonly Alert[]
  readonly forgotten: readonly string[]
}

/** What comes and goes faster than this is not alerted of. */
const standsMs = 60_000
const goneMs = 120_000
const forgetUntoldMs = 45_000

export function planAlerts(before: readonly Alert[], problems: readonly Problem[], now: Date): AlertPlan {
  const agoMs = (moment: Date) => now.getTime() - moment.getTime()
  const seen = new Set(problems.map(({ key }) => key))
  const standing = problems.map((problem) =>
    stand(before.find(({ key }) => key === problem.key) ?? null, problem, now),
  )
  const gone = before
    .filter(({ key }) => !seen.has(key))
    .map((alert) => ({ ...alert, goneSince: alert.goneSince ?? now }))
  const isForgotten = ({ kind, toldAt, goneSince }: (typeof gone)[number]) =>
    toldAt === null ? agoMs(goneSince) >= forgetUntoldMs : isNews(kind) && agoMs(goneSince) >= eventsLastMs
  const kept = gone.filter((alert) => !isForgotten(alert))
  return {
    known: [...standing, ...kept],
    begun: standing.filter(({ toldAt, since }) => toldAt === null && agoMs(since) >= standsMs),
    over: kept.filter(
      ({ kind, toldAt, goneSince }) => toldAt !== null && !isNews(kind) && agoMs(goneSince) >= goneMs,
    ),
    forgotten: gone.filter(isForgotten).map(({ key }) => key),
  }
}

const stand = (known: Alert | null, { key, kind, stream, what, whatToDo }: Problem, now: Date): Alert => ({
  key,
  kind,
  stream,
  what,
  whatToDo,
  since: known?.since ?? now,
  goneSince: null,
  toldAt: known?.toldAt ?? null,
  attempts: known?.attempts ?? 0,
  retryAt: known?.retryAt ?? null,
})

/** When a message that could not be delivered is sent again; never earlier than the receiver asked for, up to the longest. */
export const retryAfter = (attempts: number, askedForMs: number | null, now: Date): Date =>
  new Date(
    now.getTime() +
      Math.min(backoff.alert.longestMs, Math.max(delayAfter(backoff.alert, attempts + 1), askedForMs ?? 0)),
  )
