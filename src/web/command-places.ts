// Text with commands between backticks, as pages show it: where the console does the same, a link to that place stands for the command.

import { foreign, type Html, html } from './html.ts'
import { addressOf } from './pages/tables.ts'

type Place = readonly [address: string, words: string]
const name = String.raw`([\w.-]+)`

/** By what follows `tidemark`. */
const places: readonly (readonly [pattern: string, place: (of: string) => Place])[] = [
  [
    `quarantine(?: list)? ${name}`,
    (of) => [addressOf('/quarantine', { stream: of }), `the quarantine of ${of}`],
  ],
  ['quarantine', () => ['/quarantine', 'the quarantine']],
  [`quarantine retry ${name}`, (of) => [addressOf('/quarantine', { stream: of }), `Try all of ${of} again`]],
  [`deletions list ${name}`, (of) => [addressOf('/approve', { stream: of }), `the missing rows of ${of}`]],
  [`deletions approve ${name} --rows \\d+`, (of) => [addressOf('/approve', { stream: of }), 'approve them']],
  [`deletions undo ${name}`, (of) => [addressOf('/approve', { stream: of }), 'Look again now']],
  [
    `deletions reject ${name} --restore`,
    (of) => [addressOf('/approve', { stream: of }), `Keep them for another reason… at ${of}`],
  ],
  [`status ${name}`, (of) => [`/streams/${of}`, `the page of ${of}`]],
  ['status', () => ['/', 'the overview']],
  [`sync ${name}`, (of) => [`/streams/${of}`, `Read now at ${of}`]],
  [`reconcile ${name}`, (of) => [`/streams/${of}/read`, `Read again… at ${of}`]],
  [`reconcile --acknowledge ${name}`, (of) => [`/streams/${of}`, `Acknowledge at ${of}`]],
  [`backfill ${name}`, () => ['/backfills', 'a new backfill']],
  [`checkpoints ${name}`, (of) => [addressOf('/checkpoints', { stream: of }), `the checkpoints of ${of}`]],
  ['checkpoints', () => ['/checkpoints', 'the checkpoints']],
  [`contract(?: ${name} --diff| history)`, () => ['/upstream/contract', 'the page Contract']],
  ['runs', () => ['/runs', 'the page Runs']],
  ['alerts list', () => ['/problems', 'the page Problems']],
  ['(?:token|sessions) list', () => ['/people', 'the page People']],
  [`token revoke ${name}`, () => ['/people', 'the page People']],
  ['sources list', () => ['/sources', 'the page Sources']],
]

function placeOf(command: string): Place | null {
  for (const [pattern, place] of places) {
    const found = new RegExp(`^tidemark ${pattern}$`).exec(command)
    if (found) return place(found[1] ?? '')
  }
  return null
}

/** What stands between backticks is a command. `plain`: how the text around it is shown. */
export function withPlaces(
  text: string,
  plain: (part: string) => Html = (part) => html`${part}`,
): readonly Html[] {
  const parts = text.split('`')
  // One backtick alone is none of ours.
  if (parts.length % 2 === 0) return [plain(text)]
  return parts.map((part, index) => {
    if (index % 2 === 0) return part === '' ? html`` : plain(part)
    const place = placeOf(part)
    if (place === null) return html`<code>${part}</code>`
    const [address, words] = place
    const begins = /(?:^|[.!?]\s+)$/.test(parts.slice(0, index).join(''))
    return html`<a href="${address}">${begins ? words.charAt(0).toUpperCase() + words.slice(1) : words}</a>`
  })
}

/** What came of something, in which text of the upstream may stand. */
export function toldWithPlaces(text: string, most: number): readonly Html[] {
  const characters = [...text]
  const cut = characters.length > most ? `${characters.slice(0, most).join('')}…` : text
  return withPlaces(cut, (part) => foreign(part, most + 1))
}
