// Makes one message about problems that began and problems that are over, in the form that its receiver takes: Slack's, Teams',
// PagerDuty's, plain JSON, or mail. Text of the upstream is made harmless: no mentions, no links, no secrets, and never more than fits (P9). Links are made of the
// settings alone.

import type { AlertFormat, Way, Webhook } from '../config/alert-receivers.ts'
import { redact } from '../log.ts'
import type { Alert } from '../store/book/problems.ts'
import { count, formatDuration } from '../util/text.ts'
import { isNews, runbookOf } from './stream-problems.ts'

/** Who is told, and where what is told can be looked at. */
export type Receiver = Way & {
  /** Left out, like the setting: that of ALERT_WEBHOOK_URL. */
  readonly name?: string
  /** Where it is configured. */
  readonly setting?: string
  /** Where people reach the console; null: messages have no links to it. */
  readonly consoleUrl?: string | null
  /** Where the pages of docs/operations can be read; null: they are named by their path. */
  readonly runbooksUrl?: string | null
}
export type News = {
  readonly begun: readonly Alert[]
  readonly over: readonly Alert[]
  readonly now: Date
  /** Nothing happened: somebody wants to see that messages arrive. */
  readonly isTest?: boolean
}
export const testNews = (now: Date): News => ({ begun: [], over: [], now, isTest: true })

const mostAlerts = 10
const longestText = 500

/** Receivers on these hosts are Teams, which takes only cards; all others take what Slack takes. */
const teamsHosts = /(^|\.)(logic\.azure\.(com|us)|api\.powerplatform\.(com|us)|webhook\.office\.com)$/

export const formatOf = ({ url, format = null }: Webhook): AlertFormat =>
  format ?? (teamsHosts.test(new URL(url).hostname) ? 'teams' : 'slack')

/** How a receiver is told, in a word. */
export const formOf = (receiver: Receiver): string => ('mail' in receiver ? 'mail' : formatOf(receiver))

/** What is posted, one after the other: PagerDuty takes each problem by itself. */
export function bodiesOf(receiver: Receiver & Webhook, news: News): readonly string[] {
  const format = formatOf(receiver)
  const bodies =
    format === 'pagerduty'
      ? forPagerDuty(receiver, news)
      : format === 'json'
        ? [forPrograms(receiver, news)]
        : [(format === 'teams' ? forTeams : forSlack)(sectionsOf(receiver, news))]
  return bodies.map((body) => JSON.stringify(body))
}

/** As plain text; the subject is one line. */
export function mailOf(receiver: Receiver, news: News): { readonly subject: string; readonly text: string } {
  const sections = sectionsOf(receiver, news)
  const all = [...news.begun, ...news.over]
  const what = all.length === 1 ? `: ${clean(all[0]?.what ?? '')}` : ''
  const subject = `${sections.map(({ title }) => title).join(', ')}${what}`
  return {
    subject: [...subject].slice(0, 150).join(''),
    text: sections
      .map(({ title, lines, more }) =>
        [
          title,
          ...lines.map(({ text, links }) =>
            [`* ${text}`, ...links.map((link) => `  ${link.title}: ${link.url}`)].join('\n'),
          ),
          ...(more ? [`* ${more}`] : []),
        ].join('\n\n'),
      )
      .join('\n\n\n'),
  }
}

// ── words and links ──────────────────────────────────────────────────────────────────────────────────────────

type Link = { readonly title: string; readonly url: string }
type Line = { readonly text: string; readonly links: readonly Link[] }
type Section = { readonly title: string; readonly lines: readonly Line[]; readonly more: string | null }

const testText =
  'This is a test. Problems that last for a minute are told like this: what happened, since when, and what to do.'

function sectionsOf(receiver: Receiver, { begun, over, now, isTest }: News): readonly Section[] {
  const home = receiver.consoleUrl ? [{ title: 'Console', url: receiver.consoleUrl }] : []
  if (isTest) return [{ title: 'Tidemark: a test', lines: [{ text: testText, links: home }], more: null }]
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

/** Described by deploy/alerts/alert.schema.json. */
function forPrograms(receiver: Receiver, { begun, over, now, isTest = false }: News) {
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
  const left = (alerts: readonly Alert[]) => Math.max(0, alerts.length - mostAlerts)
  return {
    ...{ version: 1, source: 'tidemark', sent_at: now.toISOString(), test: isTest },
    problems: [
      ...begun.slice(0, mostAlerts).map(entry('began')),
      ...over.slice(0, mostAlerts).map(entry('over')),
    ],
    left_out: left(begun) + left(over),
  }
}

/** Events of its API, version 2. The same problem is the same incident, however often it is sent. */
function forPagerDuty(receiver: Receiver & Webhook, { begun, over, now, isTest }: News): readonly object[] {
  const { key: routing_key, consoleUrl } = receiver
  const event = (event_action: 'trigger' | 'resolve', key: string, more: object = {}) => ({
    ...{
      routing_key,
      event_action,
      dedup_key: [...`tidemark ${consoleUrl ?? ''} ${key}`].slice(0, 255).join(''),
      ...more,
    },
  })
  const trigger = (key: string, summary: string, more: object = {}, severity = 'error') =>
    event('trigger', key, { payload: { summary, severity, source: 'tidemark', ...more }, client: 'Tidemark' })
  if (isTest)
    return [trigger('test', testText, { timestamp: now.toISOString() }, 'info'), event('resolve', 'test')]
  return [
    ...begun.map((alert) => ({
      ...trigger(
        alert.key,
        clean(alert.what),
        {
          ...{
            timestamp: alert.since.toISOString(),
            class: alert.kind,
            component: alert.stream ?? undefined,
          },
          custom_details: { what_to_do: clean(alert.whatToDo), runbook: runbookOf(alert.kind) },
        },
        isNews(alert.kind) ? 'info' : 'error',
      ),
      links: linksOf(receiver, alert).map(({ title, url }) => ({ text: title, href: url })),
    })),
    ...over.map(({ key }) => event('resolve', key)),
  ]
}
