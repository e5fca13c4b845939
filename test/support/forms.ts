// The forms of a page as a browser would show them, as far as the console writes them.

export type FieldShown = {
  readonly name: string
  /** Of boxes that are ticked, with commas between them. */
  readonly value: string
  readonly isHidden: boolean
  readonly isInvalid: boolean
  readonly hasFocus: boolean
  /** By which it is described. */
  readonly description: string
}
export type FormShown = {
  readonly action: string
  /** Its action and, after a #, which of the forms that lead there it is. */
  readonly name: string
  readonly isAction: boolean
  /** Behind a click. */
  readonly isHiddenAway: boolean
  readonly fields: readonly FieldShown[]
  readonly hidden: Readonly<Record<string, string>>
  readonly text: string
}

export function formsIn(page: string): readonly FormShown[] {
  return [...page.matchAll(/<form ([^>]*)>(.*?)<\/form>/gs)].map(
    ({ 1: attributes = '', 2: text = '', index }) => {
      const fields = fieldsIn(text, page)
      const hidden = Object.fromEntries(
        fields.filter((one) => one.isHidden).map(({ name, value }) => [name, value]),
      )
      const action = attribute(attributes, 'action') ?? ''
      return {
        ...{ action, name: `${action}#${hidden.form ?? ''}`, text, fields, hidden },
        isAction: attribute(attributes, 'class') === 'act',
        isHiddenAway: detailsAround(page.slice(0, index)).some((one) => !/ open\b/.test(one)),
      }
    },
  )
}

/** The details that are not closed before the end of the text. */
function detailsAround(text: string): readonly string[] {
  const around: string[] = []
  for (const [, end, attributes = ''] of text.matchAll(/<(\/?)details([^>]*)>/g))
    if (end) around.pop()
    else around.push(attributes)
  return around
}

function fieldsIn(form: string, page: string): readonly FieldShown[] {
  const found = [...form.matchAll(/<(input|textarea|select)\b([^>]*)>(?:(?<!<input[^>]*>)(.*?)<\/\1>)?/gs)]
  const byName = Map.groupBy(found, ([, , attributes = '']) => attribute(attributes, 'name') ?? '')
  return [...byName].map(([name, parts]) => ({
    name,
    value: parts.flatMap((part) => contentOf(part) ?? []).join(','),
    isHidden: parts.every(([, , attributes = '']) => attribute(attributes, 'type') === 'hidden'),
    isInvalid: parts.some(([, , attributes = '']) => attribute(attributes, 'aria-invalid') === 'true'),
    hasFocus: parts.some(([, , attributes = '']) => / autofocus\b/.test(attributes)),
    description: parts
      .flatMap(([, , attributes = '']) => attribute(attributes, 'aria-describedby')?.split(' ') ?? [])
      .map((id) => textOf(id, page))
      .join(' '),
  }))
}

function contentOf([, tag, attributes = '', inside = '']: readonly string[]): string | null {
  if (tag === 'textarea') return plain(inside)
  if (tag === 'select') {
    const options = [...inside.matchAll(/<option([^>]*)>/g)].map(([, one = '']) => one)
    return attribute(options.find((one) => / selected\b/.test(one)) ?? '', 'value') ?? ''
  }
  if (attribute(attributes, 'type') === 'checkbox' && !/ checked\b/.test(attributes)) return null
  return attribute(attributes, 'value') ?? ''
}

/** Fails when there are several of that id. */
function textOf(id: string, page: string): string {
  const found = page.split(` id="${id}">`)
  if (found.length !== 2) throw new Error(`${found.length - 1} elements have the id ${id}`)
  return plain((found[1] ?? '').split('</span>')[0] ?? '')
}

const attribute = (attributes: string, name: string): string | null => {
  const [, value] = new RegExp(`(?:^|\\s)${name}="([^"]*)"`).exec(attributes) ?? []
  return value === undefined ? null : plain(value)
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }
const plain = (markup: string): string =>
  markup.replaceAll(/<[^>]*>/g, '').replaceAll(/&(\w+|#39);/g, (all, name) => entities[name] ?? all)
