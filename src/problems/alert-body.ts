// Makes one message about problems that began and problems that are over, in the form that its receiver takes: Slack's, Teams',
// PagerDuty's, plain JSON, or mail. Text of the upstream is made harmless: no mentions, no links, no secrets, and never more than fits (P9). Links are made of the
// settings alone.

import type { AlertFormat, Way, Webhook } from '../config/alert-receivers.ts'
import { redact } from '../log.ts'
import type { Alert } from '../store/book/problems.ts'
import { count, formatDuration } from '../util/text.ts'
import { byMessage } from './alerts.ts'
import { byCause, keyOfCause, sharedBy, sourcesOf } from './one-cause.ts'
import { placeOf } from './problem-place.ts'
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
  const [group, ...others] = [...byCause(news.begun), ...byCause(news.over)]
  const what = group && others.length === 0 ? `: ${clean(sharedWhat(group, 'have'))}` : ''
  const subject = `${sections.map(({ title }) => title).join(', ')}${what}`
  return {
    subject: [...subject].slice(0, 150).join(''),
    text: sections.map(({ title, lines }) => [title, ...lines.map(lineOfMail)].join('\n\n')).join('\n\n\n'),
  }
}

const lineOfMail = ({ text, links }: Line): string =>
  [`* ${text}`, ...links.map((link) => `  ${link.title}: ${link.url}`)].join('\n')

// ── words and links ──────────────────────────────────────────────────────────────────────────────────────────

type Link = { readonly title: string; readonly url: string }
type Line = { readonly text: string; readonly links: readonly Link[] }
type Section = { readonly title: string; readonly lines: readonly Line[] }

const testText =
  'This is a test. Problems that last for a minute are told like this: what happened, since when, and what to do.'

function sectionsOf(receiver: Receiver, { begun, over, now, isTest }: News): readonly Section[] {
  const home = receiver.consoleUrl ? [{ title: 'Console', url: receiver.consoleUrl }] : []
  if (isTest) return [{ title: 'Tidemark: a test', lines: [{ text: testText, links: home }] }]
  const needs = begun.filter(({ kind }) => !isNews(kind))
  const news = begun.filter(({ kind }) => isNews(kind))
  const many = (amount: number, one: string, several: string) =>
    amount === 1 ? `Tidemark: a problem ${one}` : `Tidemark: ${count(amount)} problems ${several}`
  const section = (
    titleOf: (amount: number) => string,
    alerts: readonly Alert[],
    lineOf: (group: readonly Alert[]) => Line,
  ): Section => {
    const groups = byCause(alerts)
    const left = groups.length - mostAlerts
    const more = left <= 0 ? [] : [{ text: `and ${count(left)} more: \`tidemark status\``, links: [] }]
    return { title: titleOf(groups.length), lines: [...groups.slice(0, mostAlerts).map(lineOf), ...more] }
  }
  const begunIn = (group: readonly Alert[]) => begunLine(receiver, group, now)
  return [
    section((amount) => many(amount, 'needs you', 'need you'), needs, begunIn),
    section(() => 'Tidemark: good to know', news, begunIn),
    section(
      (amount) => many(amount, 'is over', 'are over'),
      over,
      (group) => ({
        text: `Over after ${formatDuration(lastedMs(group, now))}: ${harmless(sharedWhat(group, 'had'))}`,
        links: [],
      }),
    ),
  ].filter(({ lines }) => lines.length > 0)
}

const mostNamed = 10

/** What is wrong, and with which sources if they are many; of those it is said as of the first. */
const sharedWhat = (group: readonly Alert[], have: 'have' | 'had'): string =>
  [sharedBy(group, { most: mostNamed, have }), group[0]?.what].filter(Boolean).join(' ')

/** Since the first of them. */
const sinceOf = (group: readonly Alert[]): Date =>
  new Date(Math.min(...group.map(({ since }) => since.getTime())))

/** Of the one that lasted longest. */
const lastedMs = (group: readonly Alert[], now: Date): number =>
  Math.max(...group.map(({ since, goneSince }) => (goneSince ?? now).getTime() - since.getTime()))

function begunLine(receiver: Receiver, group: readonly Alert[], now: Date): Line {
  const [{ kind = '', whatToDo = '' } = {}] = group
  const since = sinceOf(group)
  const links = linksOf(receiver, group)
  const clock = `${since.toISOString().slice(0, 16).replace('T', ' ')} UTC`
  const path = links.some(({ title }) => title === 'Runbook') ? '' : ` More: ${runbookOf(kind)}`
  const lasted = formatDuration(now.getTime() - since.getTime())
  return {
    text: `${harmless(sharedWhat(group, 'have'))} Since ${clock}, ${lasted} ago. → ${adviceOf(whatToDo)}${path}`,
    links,
  }
}

function linksOf(
  { consoleUrl = null, runbooksUrl = null }: Receiver,
  [alert, ...others]: readonly Alert[],
): readonly Link[] {
  const { key = '', kind = '', stream = null } = alert ?? {}
  const [address] = others.length > 0 ? ['/problems'] : placeOf({ key, kind, stream })
  const page = consoleUrl === null ? [] : [{ title: 'Console', url: `${plain(consoleUrl)}${address}` }]
  const file = runbookOf(kind).replace(/^.*\//, '')
  const runbook = runbooksUrl === null ? [] : [{ title: 'Runbook', url: `${plain(runbooksUrl)}/${file}` }]
  return [...page, ...runbook]
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

/** Commands stay as they are, so that they can be copied. What stands around them may be the name of a field. */
const adviceOf = (whatToDo: string): string =>
  clean(whatToDo)
    .split(/(`tidemark [\w .<>|-]+`)/)
    .map((text, index) => (index % 2 === 1 ? text : harmless(text)))
    .join('')

function clean(text: string): string {
  const line = redact(text)
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/\p{Cf}/gu, '')
  return line.length <= longestText ? line : `${line.slice(0, longestText).toWellFormed()}…`
}

// ── the forms ────────────────────────────────────────────────────────────────────────────────────────────────

const forSlack = (sections: readonly Section[]) => ({
  text: sections.map(({ title, lines }) => [`*${title}*`, ...lines.map(lineOfSlack)].join('\n')).join('\n\n'),
  unfurl_links: false,
  unfurl_media: false,
})

const lineOfSlack = ({ text, links }: Line): string =>
  [`• ${escaped(text)}`, ...links.map((link) => `<${link.url}|${link.title}>`)].join(' ')

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
          ...lines.flatMap(({ text, links }) => [textRun(text, {}), ...actionsOf(links)]),
        ]),
      },
    },
  ],
})

const textRun = (text: string, look: Readonly<Record<string, string>>) => ({
  type: 'RichTextBlock',
  inlines: [{ type: 'TextRun', text, ...look }],
})

function actionsOf(links: readonly Link[]) {
  const actions = links.map(({ title, url }) => ({ type: 'Action.OpenUrl', title, url }))
  return actions.length === 0 ? [] : [{ type: 'ActionSet', actions }]
}

/** Described by deploy/alerts/alert.schema.json. */
function forPrograms(receiver: Receiver, { begun, over, now, isTest = false }: News) {
  const entry = (event: 'began' | 'over') => (group: readonly Alert[]) => {
    const [first, ...others] = group
    const { kind = '', whatToDo = '' } = first ?? {}
    const links = linksOf(receiver, group)
    const urlOf = (wanted: string) => links.find(({ title }) => title === wanted)?.url ?? null
    const isOver = group.every(({ goneSince }) => goneSince !== null)
    const overMs = Math.max(...group.map(({ goneSince }) => goneSince?.getTime() ?? 0))
    return {
      event,
      key: keyOf(group),
      kind,
      stream: others.length > 0 ? null : first?.stream,
      ...(others.length > 0 && { sources: sourcesOf(group) }),
      needs_you: !isNews(kind),
      what: clean(sharedWhat(group, event === 'began' ? 'have' : 'had')),
      what_to_do: clean(whatToDo),
      since: sinceOf(group).toISOString(),
      over_since: isOver ? new Date(overMs).toISOString() : null,
      page_url: urlOf('Console'),
      runbook: runbookOf(kind),
      runbook_url: urlOf('Runbook'),
    }
  }
  const [began, ended] = [byCause(begun), byCause(over)]
  const left = ({ length }: readonly unknown[]) => Math.max(0, length - mostAlerts)
  return {
    version: 1,
    source: 'tidemark',
    sent_at: now.toISOString(),
    test: isTest,
    problems: [
      ...began.slice(0, mostAlerts).map(entry('began')),
      ...ended.slice(0, mostAlerts).map(entry('over')),
    ],
    left_out: left(began) + left(ended),
  }
}

const keyOf = (group: readonly Alert[]): string => {
  const [first, ...others] = group
  return first === undefined || others.length === 0 ? (first?.key ?? '') : keyOfCause(first)
}

/** Events of its API, version 2. The same problem is the same incident, however often it is sent. */
function forPagerDuty(receiver: Receiver & Webhook, { begun, over, now, isTest }: News): readonly object[] {
  const { key: routing_key, consoleUrl } = receiver
  const event = (event_action: 'trigger' | 'resolve', key: string, more: object = {}) => ({
    routing_key,
    event_action,
    dedup_key: [...`tidemark ${consoleUrl ?? ''} ${key}`].slice(0, 255).join(''),
    ...more,
  })
  const trigger = (key: string, summary: string, severity: 'info' | 'error', more: object) =>
    event('trigger', key, { payload: { summary, severity, source: 'tidemark', ...more }, client: 'Tidemark' })
  if (isTest)
    return [trigger('test', testText, 'info', { timestamp: now.toISOString() }), event('resolve', 'test')]
  const began = (group: readonly Alert[]) => {
    const [{ kind = '', whatToDo = '', stream = null } = {}] = group
    const about = {
      timestamp: sinceOf(group).toISOString(),
      class: kind,
      component: (group.length === 1 && stream) || undefined,
      custom_details: { what_to_do: clean(whatToDo), runbook: runbookOf(kind) },
    }
    const links = linksOf(receiver, group).map(({ title, url }) => ({ text: title, href: url }))
    const summary = clean(sharedWhat(group, 'have'))
    return { ...trigger(keyOf(group), summary, isNews(kind) ? 'info' : 'error', about), links }
  }
  const resolved = (keys: readonly string[]) => keys.map((key) => event('resolve', key))
  return [
    ...byCause(begun).flatMap((group) => [began(group), ...resolved(ownIncidents(group))]),
    ...byCause(over).flatMap((group) => resolved([keyOf(group), ...ownIncidents(group)])),
  ]
}

/** Incidents of single sources, told before others had the same problem: the one of them all takes their place. */
const ownIncidents = (group: readonly Alert[]): readonly string[] =>
  group.length === 1
    ? []
    : byMessage(group.filter(({ toldAt }) => toldAt !== null)).flatMap(([alert, ...others]) =>
        alert === undefined || others.length > 0 ? [] : alert.key,
      )
