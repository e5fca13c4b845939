// Makes one message about problems that began and problems that are over, in the form that its receiver takes: Slack's, Teams' or plain
// JSON. Text of the upstream is made harmless: no mentions, no links, no secrets, and never more than fits (P9). Links are made of the
// settings alone.

import { redact } from '../log.ts'
import type { Alert } from '../store/book/problems.ts'
import type { Proxies } from '../util/proxies.ts'
import { count, formatDuration } from '../util/text.ts'
import { isNews, runbookOf } from './stream-problems.ts'

export const alertFormats = ['slack', 'teams', 'json'] as const
export type AlertFormat = (typeof alertFormats)[number]

/** Who is told, and where what is told can be looked at. */
export type Receiver = {
  readonly url: string
  /** Left out: it is reached directly. */
  readonly proxies?: Proxies
  /** Null: the address tells. */
  readonly format?: AlertFormat | null
  /** Where people reach the console; null: messages have no links to it. */
  readonly consoleUrl?: string | null
  /** Where the pages of docs/operations can be read; null: they are named by their path. */
  readonly runbooksUrl?: string | null
}
export type News = { readonly begun: readonly Alert[]; readonly over: readonly Alert[]; readonly now: Date }

const mostAlerts = 10
const longestText = 500

/** Receivers on these hosts are Teams, which takes only cards; all others take what Slack takes. */
const teamsHosts = /(^|\.)(logic\.azure\.(com|us)|api\.powerplatform\.(com|us)|webhook\.office\.com)$/

export const formatOf = ({ url, format = null }: Receiver): AlertFormat =>
  format ?? (teamsHosts.test(new URL(url).hostname) ? 'teams' : 'slack')

export function alertBody(receiver: Receiver, news: News): string {
  const format = formatOf(receiver)
  if (format === 'json') return JSON.stringify(forPrograms(receiver, news))
  const sections = sectionsOf(receiver, news)
  return JSON.stringify(format === 'teams' ? forTeams(sections) : forSlack(sections))
}

/** To see that messages arrive. */
export function testBody(receiver: Receiver, now: Date): string {
  const text =
    'This is a test. Problems that last for a minute are told like this: what happened, since when, and what to do.'
  if (formatOf(receiver) === 'json') return JSON.stringify({ ...envelope(now), test: true, problems: [] })
  const home = receiver.consoleUrl ? [{ title: 'Console', url: receiver.consoleUrl }] : []
  const sections = [{ title: 'Tidemark: a test', lines: [{ text, links: home }], more: null }]
  return JSON.stringify(formatOf(receiver) === 'teams' ? forTeams(sections) : forSlack(sections))
}

// ── words and links ──────────────────────────────────────────────────────────────────────────────────────────

type Link = { readonly title: string; readonly url: string }
type Line = { readonly text: string; readonly links: readonly Link[] }
type Section = { readonly title: string; readonly lines: readonly Line[]; readonly more: string | null }

function sectionsOf(receiver: Receiver, { begun, over, now }: News): readonly Section[] {
  const needs = begun.filter(({ kind }) => !isNews(kind))
  const news = begun.filter(({ kind }) => isNews(kind))
  const many = (amount: number, one: string, several: string) =>
    amount === 1 ? `Tidemark: a problem ${one}` : `Tidemark: ${count(amount)} problems ${several}`
  const section = (title: string, alerts: readonly Alert[], lineOf: (alert: Alert) => Line): Section => ({
    title,
    lines: alerts.slice(0, mostAlerts).map(lineOf),
    more:
      alerts.length <= mostAlerts
        ? null
        : `and ${count(alerts.length - mostAlerts)} more: \`tidemark status\``,
  })
  return [
    section(many(needs.length, 'needs you', 'need you'), needs, (alert) => begunLine(receiver, alert, now)),
    section('Tidemark: good to know', news, (alert) => begunLine(receiver, alert, now)),
    section(many(over.length, 'is over', 'are over'), over, (alert) => ({
      text: `Over after ${formatDuration(lastedMs(alert, now))}: ${harmless(alert.what)}`,
      links: [],
    })),
  ].filter(({ lines }) => lines.length > 0)
}

const lastedMs = ({ since, goneSince }: Alert, now: Date): number =>
  (goneSince ?? now).getTime() - since.getTime()

function begunLine(receiver: Receiver, alert: Alert, now: Date): Line {
  const { kind, what, whatToDo, since } = alert
  const links = linksOf(receiver, alert)
  const clock = `${since.toISOString().slice(0, 16).replace('T', ' ')} UTC`
  const path = links.some(({ title }) => title === 'Runbook') ? '' : ` More: ${runbookOf(kind)}`
  const lasted = formatDuration(now.getTime() - since.getTime())
  return { text: `${harmless(what)} Since ${clock}, ${lasted} ago. → ${harmless(whatToDo)}${path}`, links }
}

function linksOf(
  { consoleUrl = null, runbooksUrl = null }: Receiver,
  alert: Pick<Alert, 'kind' | 'stream'>,
): readonly Link[] {
  const page = consoleUrl === null ? [] : [{ title: 'Console', url: pageOf(consoleUrl, alert) }]
  const file = runbookOf(alert.kind).replace(/^.*\//, '')
  const runbook = runbooksUrl === null ? [] : [{ title: 'Runbook', url: `${plain(runbooksUrl)}/${file}` }]
  return [...page, ...runbook]
}

/** The page of the console where people see the problem and can do something about it. */
function pageOf(consoleUrl: string, { kind, stream }: Pick<Alert, 'kind' | 'stream'>): string {
  if (stream !== null && ['deletions_blocked', 'deletions_frozen'].includes(kind))
    return `${plain(consoleUrl)}/approve?stream=${encodeURIComponent(stream)}`
  if (stream !== null && kind === 'quarantine')
    return `${plain(consoleUrl)}/quarantine?stream=${encodeURIComponent(stream)}`
  if (stream !== null) return `${plain(consoleUrl)}/streams/${encodeURIComponent(stream)}`
  return `${plain(consoleUrl)}/${['service_down', 'token_refused', 'told_to_wait'].includes(kind) ? 'upstream' : ''}`
}

const plain = (url: string): string => url.replace(/(?<!\/)\/+$/, '')

/** A character without width: put between others, it keeps a chat from making a mention or a link of them. */
const apart = '\u200b'

function harmless(text: string): string {
  return clean(text)
    .replaceAll('@', `@${apart}`)
    .replaceAll('://', `:${apart}//`)
    .replaceAll('](', `]${apart}(`)
    .replaceAll(/\.(?=\p{L})/gu, `.${apart}`)
}

function clean(text: string): string {
  const line = redact(text)
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/\p{Cf}/gu, '')
  return line.length <= longestText ? line : `${line.slice(0, longestText).toWellFormed()}…`
}

// ── the forms ────────────────────────────────────────────────────────────────────────────────────────────────

const forSlack = (sections: readonly Section[]) => ({
  text: sections
    .map(({ title, lines, more }) =>
      [
        `*${title}*`,
        ...lines.map(({ text, links }) =>
          [`• ${escaped(text)}`, ...links.map((link) => `<${link.url}|${link.title}>`)].join(' '),
        ),
        ...(more ? [`• ${more}`] : []),
      ].join('\n'),
    )
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
        body: sections.flatMap(({ title, lines, more }) => [
          textRun(title, { weight: 'Bolder', size: 'Medium' }),
          ...lines.flatMap(({ text, links }) => [textRun(text, {}), ...actionsOf(links)]),
          ...(more ? [textRun(more, {})] : []),
        ]),
      },
    },
  ],
})

const textRun = (text: string, look: Readonly<Record<string, string>>) => ({
  type: 'RichTextBlock',
  inlines: [{ type: 'TextRun', text, ...look }],
})

const actionsOf = (links: readonly Link[]) =>
  links.length === 0
    ? []
    : [
        {
          type: 'ActionSet',
          actions: links.map(({ title, url }) => ({ type: 'Action.OpenUrl', title, url })),
        },
      ]

const envelope = (now: Date) => ({ version: 1, source: 'tidemark', sent_at: now.toISOString() })

/** Described by deploy/alerts/alert.schema.json. */
function forPrograms(receiver: Receiver, { begun, over, now }: News) {
  const entry = (event: 'began' | 'over') => (alert: Alert) => {
    const links = linksOf(receiver, alert)
    const urlOf = (wanted: string) => links.find(({ title }) => title === wanted)?.url ?? null
    return {
      event,
      key: alert.key,
      kind: alert.kind,
      stream: alert.stream,
      needs_you: !isNews(alert.kind),
      what: clean(alert.what),
      what_to_do: clean(alert.whatToDo),
      since: alert.since.toISOString(),
      over_since: alert.goneSince?.toISOString() ?? null,
      page_url: urlOf('Console'),
      runbook: runbookOf(alert.kind),
      runbook_url: urlOf('Runbook'),
    }
  }
  return {
    ...envelope(now),
    test: false,
    problems: [
      ...begun.slice(0, mostAlerts).map(entry('began')),
      ...over.slice(0, mostAlerts).map(entry('over')),
    ],
    left_out: Math.max(0, begun.length - mostAlerts) + Math.max(0, over.length - mostAlerts),
  }
}
