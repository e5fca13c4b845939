// HTML as a tagged template. Whatever is put into it is text and is escaped; only templates put into templates stay markup. There
// is no way around it, because names and records of the upstream end up in these pages.

const markup = Symbol('markup')

/** Data cannot forge one: no JSON makes a symbol. */
export type Html = { readonly [markup]: string }
type Part = Html | string | number | bigint | false | null | undefined | readonly Part[]

/** Attributes must be quoted; `false`, `null` and `undefined` are nothing. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return { [markup]: strings.reduce((text, string, index) => text + render(parts[index - 1]) + string) }
}

export const markupOf = (template: Html): string => template[markup]

function render(part: Part): string {
  if (part === null || part === undefined || part === false) return ''
  if (typeof part !== 'object') return escapeText(String(part))
  return markup in part ? part[markup] : part.map(render).join('')
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  // The parser would drop or replace it.
  '\0': '\ufffd',
}

const escapeText = (text: string): string => text.replaceAll(/[&<>"'\0]/g, (one) => entities[one] ?? one)
