// Text with commands between backticks, as pages show it: where the console does the same, a link to that place stands for the command.

import { foreign, type Html, html } from './html.ts'

const name = String.raw`([\w.-]+)`

/** By what follows `tidemark`: an address and words, both with `$1` for the name, which needs no encoding. */
const places: readonly (readonly [pattern: string, address: string, words: string])[] = [
  [`quarantine(?: list)? ${name}`, '/quarantine?stream=$1', 'the quarantine of $1'],
  ['quarantine', '/quarantine', 'the quarantine'],
  [`quarantine retry ${name}`, '/quarantine?stream=$1', 'Try all of $1 again'],
  [`deletions list ${name}`, '/approve?stream=$1', 'the missing rows of $1'],
  [`deletions approve ${name} --rows \\d+`, '/approve?stream=$1', 'approve them'],
  [`deletions undo ${name}`, '/approve?stream=$1', 'Look again now'],
  [`deletions reject ${name} --restore`, '/approve?stream=$1', 'Keep them for another reason… at $1'],
  [`status ${name}`, '/streams/$1', 'the page of $1'],
  ['status', '/', 'the overview'],
  [`sync ${name}`, '/streams/$1', 'Read now at $1'],
  [`reconcile ${name}`, '/streams/$1/read', 'Read again… at $1'],
  [`reconcile --acknowledge ${name}`, '/streams/$1', 'Acknowledge at $1'],
  [`backfill ${name}`, '/backfills', 'a new backfill'],
  [`checkpoints ${name}`, '/checkpoints?stream=$1', 'the checkpoints of $1'],
  ['checkpoints', '/checkpoints', 'the checkpoints'],
  [`contract(?: ${name} --diff| history)`, '/upstream/contract', 'the page Contract'],
  ['runs', '/runs', 'the page Runs'],
  ['alerts list', '/problems', 'the page Problems'],
  ['(?:token|sessions) list', '/people', 'the page People'],
  [`token revoke ${name}`, '/people', 'the page People'],
  ['sources list', '/sources', 'the page Sources'],
]

function placeOf(command: string): readonly [address: string, words: string] | null {
  for (const [pattern, ...place] of places) {
    const found = new RegExp(`^tidemark ${pattern}$`).exec(command)
    const [address = '', words = ''] = place.map((text) => text.replace('$1', found?.[1] ?? ''))
    if (found) return [address, words]
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
