// The fields of all forms. A form that comes back after a mistake keeps what was typed, marks the field that is wrong, and says beside it why.
// Secrets are the exception: they are never shown, and have to be typed again (P9).

import { redact } from '../log.ts'
import type { UsageError } from '../util/errors.ts'
import { toldWithPlaces } from './command-places.ts'
import { type Html, html } from './html.ts'
import type { Fields } from './server.ts'

/** What a form is to be filled with. */
type Filling = {
  /** As it was sent, without secrets. Null: nothing was typed yet. */
  readonly typed: Fields | null
  /** `field`: the one that is wrong; null: no single one. */
  readonly wrong: { readonly text: string; readonly field: string | null } | null
  /** Fields whose content is not shown again. */
  readonly withheld: readonly string[]
}
/** What was sent by a form, and was not done. */
export type Mistake = Filling & { readonly form: string }

const longest = 600
export const newForm: Filling = { typed: null, wrong: null, withheld: [] }

const secretNames = ['webhook', 'key', 'password', 'token'] as const

/** A reason may hold the address of a ticket. In another field an address may be that of a webhook, which is a secret. */
const mayBeSecret = (name: string, text: string): boolean =>
  secretNames.some((one) => one === name) ||
  redact(text) !== text ||
  (name !== 'reason' && /https?:\/\//i.test(text))

/** As the error of an action, or of a question, says it. */
export const wrongIn = ({ message, field }: UsageError) => ({ text: message, field })

export function mistakeOf(form: string, sent: Fields, wrong: Filling['wrong']): Mistake {
  const all = Object.entries(sent)
  const withheld = all.filter(([name, text]) => mayBeSecret(name, text)).map(([name]) => name)
  const typed = Object.fromEntries(all.filter(([name]) => !withheld.includes(name)))
  return { form, typed, wrong, withheld }
}

type Field<Name = string> = {
  readonly name: Name
  readonly title: Html | string
  /** Below the field. */
  readonly hint?: Html | string | false | null
}
/** As long as nothing was typed. */
type WithValue = { readonly value?: string | false | null | undefined }
/** More attributes. */
type WithMore = { readonly more?: Html }
type WithChoices = { readonly choices: readonly (readonly [value: string, words: string])[] }
type Checks = Field &
  WithValue &
  WithChoices & {
    readonly meanings?: Readonly<Record<string, string>>
    /** Behind one more click as long as none is ticked. */
    readonly isFolded?: boolean
  }

export type FormFields = ReturnType<typeof openFields>

/** `form`: its name, which no other form of the page has. */
export function openFields(form: string, filling: Filling) {
  const { typed } = filling
  const { around, rest } = openNotes(encodeURIComponent(form.slice(1)), filling)
  const contentOf = ({ name, value = '' }: Field & WithValue) => (typed === null ? value : typed[name]) || ''
  return {
    /** What is wrong, unless it stands beside a field that was made before. */
    rest,
    line: (field: Field & WithValue & WithMore) =>
      around(
        field,
        (attributes) =>
          html`<label>${field.title} <input name="${field.name}" value="${contentOf(field)}" autocomplete="off"${attributes} ${field.more}></label>`,
      ),
    text: (field: Field) =>
      around(
        field,
        (attributes) =>
          html`<label>${field.title} <textarea name="${field.name}" rows="2" required maxlength="300"${attributes}>${contentOf(field)}</textarea></label>`,
      ),
    secret: (field: Field<(typeof secretNames)[number]> & WithMore) =>
      around(
        field,
        (attributes) =>
          html`<label>${field.title} <input type="password" name="${field.name}"${attributes} ${field.more}></label>`,
      ),
    choice: (field: Field & WithValue & WithChoices) =>
      around(
        field,
        (attributes) =>
          html`<label>${field.title} <select name="${field.name}"${attributes}>${field.choices.map(
            ([value, words]) =>
              html`<option value="${value}"${value === contentOf(field) && html` selected`}>${words}</option>`,
          )}</select></label>`,
      ),
    check: (field: Field) =>
      around(
        field,
        (attributes) =>
          html`<label class="check"><input type="checkbox" name="${field.name}" value="yes"${contentOf(field) !== '' && html` checked`}${attributes}> ${field.title}</label>`,
      ),
    /** Any of a list. `value`: with commas between them. */
    checks: (field: Checks) => around(field, (attributes) => checksOf(field, contentOf(field), attributes)),
  }
}

/** What is said below a field is what it is described by. */
function openNotes(id: string, { wrong, withheld }: Filling) {
  let isTold = wrong === null
  return {
    around({ name, hint }: Field, field: (attributes: Html) => Html): Html {
      const isWrong = wrong?.field === name
      isTold ||= isWrong
      const said = {
        mistake: isWrong && html`${toldWithPlaces(wrong.text, longest)}`,
        again: withheld.includes(name) && 'What you typed here is not shown: type it again.',
        hint,
      }
      const notes = Object.entries(said).filter(([, text]) => Boolean(text))
      const idOf = (kind: string) => `${id}-${name}-${kind}`
      const ids = notes.map(([kind]) => idOf(kind)).join(' ')
      const inside = field(
        html`${ids !== '' && html` aria-describedby="${ids}"`}${isWrong && html` aria-invalid="true" autofocus`}`,
      )
      if (ids === '') return inside
      return html`<div class="field">${inside}${notes.map(([kind, text]) => html`<span class="${kind}" id="${idOf(kind)}">${text}</span>`)}</div>`
    },
    rest: () =>
      wrong === null || isTold
        ? null
        : html`<p class="note bad" role="alert" tabindex="-1" autofocus>${toldWithPlaces(wrong.text, longest)}</p>`,
  }
}

function checksOf(
  { name, title, choices, meanings = {}, isFolded = false }: Checks,
  content: string,
  attributes: Html,
): Html {
  const ticked = content.split(',').map((one) => one.trim())
  const boxes = choices.map(
    ([value, words], index) =>
      html`<label class="check"><input type="checkbox" name="${name}" value="${value}"${ticked.includes(value) && html` checked`}${index === 0 && attributes}> <span>${words}${meanings[value] && html`<small class="quiet">${meanings[value]}</small>`}</span></label>`,
  )
  const group = (legend: Html) => html`<fieldset class="checks">${legend}${boxes}</fieldset>`
  if (!isFolded) return group(html`<legend>${title}</legend>`)
  return html`<details${content !== '' && html` open`}><summary>${title}</summary>${group(html`<legend class="hidden">${title}</legend>`)}</details>`
}
