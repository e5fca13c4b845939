// One message about what began and what is over, as the receiver's kind of chat takes it. Text of the upstream is made harmless:
// no mentions, no links, no secrets, and never more than fits (P9).

import { isNews } from '../concerns/concern.ts'
import { formatDuration } from '../duration.ts'
import { redact } from '../log.ts'
import type { Alert } from '../mirror/alerts.ts'

type Told = { readonly begun: readonly Alert[]; readonly over: readonly Alert[]; readonly now: Date }
type Section = { readonly title: string; readonly lines: readonly string[] }

const mostLines = 10
const longestLine = 500

/** Teams takes cards only, behind these hosts; all else takes what Slack does. */
const teamsHosts = /(^|\.)(logic\.azure\.(com|us)|api\.powerplatform\.(com|us)|webhook\.office\.com)$/

export function alertBody(url: string, told: Told): string {
  const sections = sectionsOf(told)
  return JSON.stringify(teamsHosts.test(new URL(url).hostname) ? forTeams(sections) : forSlack(sections))
}

function sectionsOf({ begun, over, now }: Told): readonly Section[] {
  const needs = begun.filter(({ kind }) => !isNews(kind))
  const lastedMs = ({ since, goneSince }: Alert) => (goneSince ?? now).getTime() - since.getTime()
  return [
    {
      title:
        needs.length === 1 ? 'Tidemark needs a person' : `Tidemark needs a person: ${needs.length} concerns`,
      lines: needs.map(asked),
    },
    { title: 'Tidemark: good to know', lines: begun.filter(({ kind }) => isNews(kind)).map(asked) },
    {
      title: over.length === 1 ? 'Tidemark: over' : `Tidemark: ${over.length} concerns are over`,
      lines: over.map((alert) => `${harmless(alert.what)} – over, after ${formatDuration(lastedMs(alert))}`),
    },
  ]
    .filter(({ lines }) => lines.length > 0)
    .map(({ title, lines }) => ({ title, lines: bounded(lines) }))
}

const asked = ({ what, whatToDo }: Alert): string => `${harmless(what)} → ${harmless(whatToDo)}`

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
