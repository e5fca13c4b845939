// Finds secrets in a text however they are spelled there: as they are, as JSON, URLs, forms and HTML write them, also nested, and as base64
// or hexadecimal digits, alone or as part of something longer (P9).

export const mask = '[secret]'

/** A piece of a secret in one encoding. */
type Form = {
  /** Of the whole secret. */
  readonly length: number
  /** Every spelling leaves letters and digits as they are: where these are not, the form is not. Empty: it has too few. */
  readonly anchor: string
  readonly pattern: () => RegExp
  /** The piece that follows. */
  readonly next: Form | null
}

export function openSecrets() {
  const known = new Map<string, readonly Form[]>()
  const anchors = openAnchors()
  return {
    add(secret: string) {
      if (known.has(secret)) return
      const forms = formsOf(secret)
      known.set(secret, forms)
      forms.forEach(anchors.add)
    },
    remove(secret: string) {
      known.get(secret)?.forEach(anchors.remove)
      known.delete(secret)
    },
    /** The text without any of them. */
    maskedIn(text: string) {
      const found = anchors.foundIn(text)
      if (found.size === 0) return text
      // The longest first: a shorter one may be part of it, and would leave the rest behind.
      const forms = [...found].sort((a, b) => b.length - a.length)
      const masked = forms.reduce(withoutForm, text)
      return masked.replaceAll(/(?:\[secret\]){2,}/g, mask)
    },
  }
}

function withoutForm(text: string, form: Form): string {
  let clean = ''
  let end = 0
  for (const { 0: found, index } of text.matchAll(form.pattern())) {
    if (index < end) continue
    clean += `${text.slice(end, index)}${mask}`
    end = index + found.length
    // A secret that repeats itself could be taken up at the wrong place by each piece alone, which would leave a part.
    for (let next = form.next; next !== null; next = next.next) {
      const pattern = new RegExp(next.pattern(), 'y')
      pattern.lastIndex = end
      if (!pattern.test(text)) break
      end = pattern.lastIndex
    }
  }
  return `${clean}${text.slice(end)}`
}

const windowLength = 4
const longestAnchor = 16
const slotCount = 65_536

/** Finds all anchors in one pass over a text, however many there are (P10): they are filed by their last characters. */
function openAnchors() {
  const always = new Set<Form>()
  const slots = new Map<number, readonly Form[]>()
  const isTaken = new Uint8Array(slotCount)
  const slotOf = (anchor: string) => slotFor([...anchor.slice(-windowLength)].reduce(withNext, 0))
  const withNext = (window: number, character: string) => shifted(window, character.charCodeAt(0))
  function file({ anchor }: Form, change: (forms: readonly Form[]) => readonly Form[]): void {
    const slot = slotOf(anchor)
    const forms = change(slots.get(slot) ?? [])
    if (forms.length > 0) slots.set(slot, forms)
    else slots.delete(slot)
    isTaken[slot] = forms.length > 0 ? 1 : 0
  }
  return {
    add(form: Form) {
      if (form.anchor === '') always.add(form)
      else file(form, (forms) => [...forms, form])
    },
    remove(form: Form) {
      always.delete(form)
      file(form, (forms) => forms.filter((one) => one !== form))
    },
    foundIn(text: string): Set<Form> {
      const found = new Set(always)
      let window = 0
      for (let at = 0; at < text.length; at++) {
        window = shifted(window, text.charCodeAt(at))
        const slot = slotFor(window)
        if (isTaken[slot] === 0) continue
        for (const form of slots.get(slot) ?? [])
          if (!found.has(form) && text.endsWith(form.anchor, at + 1)) found.add(form)
      }
      return found
    },
  }
}
const shifted = (window: number, code: number): number => (window << 8) | (code & 0xff)
const slotFor = (window: number): number => Math.imul(window, 0x9e3779b1) >>> 16

/** Encodings of shorter ones would be found by chance. */
const shortestEncoded = 8

function formsOf(secret: string): readonly Form[] {
  const bytes = Buffer.from(secret)
  const encoded = [0, 1, 2].flatMap((offset) => [
    inBase64(bytes, offset, 'base64'),
    inBase64(bytes, offset, 'base64url'),
  ])
  const digits = bytes.toString('hex')
  const spelled = bytes.length < shortestEncoded ? [] : [...encoded, digits, digits.toUpperCase()]
  return [...new Set([secret, ...spelled])].flatMap(formsOfText)
}

/** Of bytes that stand `offset` bytes after a multiple of three: the digits that depend on nothing that stands beside them. */
function inBase64(bytes: Buffer, offset: number, encoding: 'base64' | 'base64url'): string {
  const digits = Buffer.concat([Buffer.alloc(offset), bytes]).toString(encoding)
  return digits.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6))
}

// An expression that is too large cannot be used at all, so each piece of a long secret counts as one.
const longestPiece = 1_000

/** Long runs of backslashes are pieces of their own: an expression with some of them one after the other would take time without end. */
function piecesOf(text: string): readonly string[] {
  const pieces = text.split(/(\\{100})/).flatMap(cut)
  const long = pieces.filter(({ length }) => length >= shortestEncoded)
  // Short ones would be found by chance.
  return long.length > 0 ? long : pieces
}

/** Between whole characters, and so that none is short. */
function cut(text: string): readonly string[] {
  const parts = partsOf(text)
  const count = Math.max(1, Math.floor(parts.length / longestPiece))
  const pieces: string[] = []
  for (let index = 0; index < count; index++) {
    const end = index === count - 1 ? parts.length : (index + 1) * longestPiece
    pieces.push(parts.slice(index * longestPiece, end).join(''))
  }
  return pieces.filter(Boolean)
}

/** Backslashes that stand together are one part. */
const partsOf = (text: string): readonly string[] => text.match(/\\+|[^\\]/gu) ?? []

function formsOfText(text: string): readonly Form[] {
  const forms: Form[] = []
  for (const piece of piecesOf(text).toReversed()) {
    const runs = piece.match(/[\w-]+/g) ?? []
    const longest = runs.reduce((a, b) => (b.length > a.length ? b : a), '')
    let pattern: RegExp | null = null
    forms.unshift({
      length: text.length,
      anchor: longest.length < windowLength ? '' : longest.slice(-longestAnchor),
      pattern: () => {
        pattern ??= anySpelling(piece)
        return pattern
      },
      next: forms[0] ?? null,
    })
  }
  return forms
}

/** Matches a text as it is, and as JSON, URLs, forms and HTML would write it, also nested: a proxy or an upstream may send it back so. */
const anySpelling = (piece: string): RegExp => new RegExp(partsOf(piece).map(spellings).join(''), 'g')

// Repetition is bounded, and backslashes that stand together are matched as one: otherwise a body of nothing but backslashes would take
// time that grows with its square.
function spellings(part: string): string {
  if (/[\w-]/.test(part)) return part
  const character = String.fromCodePoint(part.codePointAt(0) ?? 0)
  const count = part.length / character.length
  const plain = character < '\x80' ? `\\${character}` : character
  if (character === '.') return plain
  const times = count > 1 ? `{${count}}` : ''
  const inUrls = [...Buffer.from(character)].map((byte) => `%(?:25){0,3}${hex(byte, 2)}`).join('')
  const units = character.split('').map((unit) => unit.charCodeAt(0))
  const inJson = units.map((unit) => `\\\\{1,8}u${hex(unit, 4)}`).join('')
  const code = character.codePointAt(0) ?? 0
  const entities = [`#0{0,6}${code}`, `#[xX]0{0,6}${hex(code, 1)}`, ...(entityNames[character] ?? [])]
  const inHtml = `&(?:amp;){0,3}(?:${entities.join('|')});`
  const asItIs = character === '\\' ? `\\\\{${count},${9 * count}}` : `\\\\{0,8}${plain}`
  const escaped = [inUrls, inJson, inHtml].map((one) => `(?:${one})${times}`)
  return `(?:${[asItIs, ...escaped, ...(character === ' ' ? ['\\+'] : [])].join('|')})`
}

const hex = (number: number, digits: number): string =>
  number
    .toString(16)
    .padStart(digits, '0')
    .replaceAll(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`)

const entityNames: Readonly<Record<string, readonly string[]>> = {
  '&': ['amp'],
  '<': ['lt'],
  '>': ['gt'],
  '"': ['quot'],
  "'": ['apos'],
}
