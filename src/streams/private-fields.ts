// Fields that the owner leaves out or masks (P20): what becomes of their values, in which answers of the upstream they may stand, and of
// which type a masked value is. Pure.

import { createHmac, hash } from 'node:crypto'
import { parseJson } from '../json/parse.ts'
import { type Hide, type Hiding, openHiding } from '../wire/hidden-fields.ts'
import { type Dictionary, foldField, type Mask } from './dictionary.ts'

export type Rule = { readonly kind: 'omit' } | Mask
/** By the folded name of the field. */
export type Rules = ReadonlyMap<string, Rule>

const noRules: Rules = new Map()

const rulesOf = (dictionary: Dictionary, stream: string): Rules =>
  new Map(
    [...(dictionary.get(stream)?.fields ?? [])].flatMap(([name, { omit, mask }]) => {
      const rule: Rule | null = omit ? { kind: 'omit' } : mask
      return rule === null ? [] : [[name, rule] as const]
    }),
  )

/** As it is written in the dictionary. */
const ruleText = (rule: Rule): string => (rule.kind === 'first' ? `first ${rule.characters}` : rule.kind)

const isSameRule = (one: Rule, other: Rule | undefined): boolean =>
  other !== undefined && ruleText(one) === ruleText(other)

/** Tells one MASK_KEY from another, and nothing of either. */
export const markOf = (maskKey: string): string =>
  createHmac('sha256', maskKey).update('tidemark mask key').digest('hex').slice(0, 16)

const keyMarkOf = (rule: Rule, maskKey: string | null): string | null =>
  rule.kind === 'hash' ? markOf(maskKey ?? '') : null

/** A rule as it is noted where it is in force. */
export type NotedRule = { readonly field: string; readonly rule: string; readonly keyMark: string | null }
export type RuleChange = {
  readonly field: string
  /** Null: its values landed as they are. */
  readonly before: NotedRule | null
  /** Null: they are to. */
  readonly after: NotedRule | null
}

export const rulesToNote = (
  dictionary: Dictionary,
  stream: string,
  maskKey: string | null,
): readonly NotedRule[] =>
  [...rulesOf(dictionary, stream)].map(([field, rule]) => ({
    field,
    rule: ruleText(rule),
    keyMark: keyMarkOf(rule, maskKey),
  }))

export function changesOf(noted: readonly NotedRule[], wanted: readonly NotedRule[]): readonly RuleChange[] {
  const fields = new Set([...noted, ...wanted].map(({ field }) => field))
  return [...fields].flatMap((field) => {
    const before = noted.find((one) => one.field === field) ?? null
    const after = wanted.find((one) => one.field === field) ?? null
    const isSame = before?.rule === after?.rule && before?.keyMark === after?.keyMark
    return isSame ? [] : [{ field, before, after }]
  })
}

/** What lands in place of a value, both as JSON. */
export function masked(rule: Mask, value: Buffer, maskKey: string | null): string {
  const text = rule.kind === 'null' ? null : textOf(value, rule)
  if (text === null) return 'null'
  switch (rule.kind) {
    case 'hash':
      return maskKey === null ? 'null' : `"${createHmac('sha256', maskKey).update(text).digest('hex')}"`
    case 'first':
      return JSON.stringify([...text].slice(0, rule.characters).join(''))
    case 'year':
      return yearIn(text) ?? 'null'
    case 'null':
      return 'null'
  }
}

const quote = 0x22

/** Numbers are the same as strings of the same text. What is nested has no text of its own: only its hash can be told. */
function textOf(value: Buffer, { kind }: Mask): string | null {
  const written = value.toString()
  if (written === 'null') return null
  if (value[0] === quote) return JSON.parse(written)
  if (!/^[[{]/.test(written)) return written
  return kind === 'hash' ? JSON.stringify(parseJson(value)) : null
}

function yearIn(text: string): string | null {
  const [, year, month = ''] = /^(\d{4})-(\d\d)(?:-\d\d(?:[T ].*)?)?$/s.exec(text) ?? []
  return year === undefined || Number(month) < 1 || Number(month) > 12 ? null : String(Number(year))
}

/** Which resource of the upstream a stream is read from, such as `Assignment`. */
export type Resource = { readonly stream: string; readonly resource: string }

type Needs = {
  /** What the owner says now. */
  readonly dictionary: () => Dictionary
  readonly resources: readonly Resource[]
  readonly maskKey: string | null
  /** Of this installation: fingerprints are made with it where there is no MASK_KEY. */
  readonly secret: string
}
export type PrivateFields = ReturnType<typeof openPrivateFields>

export function openPrivateFields(needs: Needs) {
  const { dictionary, maskKey, secret, resources } = needs
  const held = new Map<string, Rules>()
  let seen: Dictionary | null = null
  let answers: PrivateAnswers | null = null
  const fingerprint = (value: string | Buffer) =>
    createHmac('sha256', maskKey ?? hash('sha256', `tidemark ${secret}`))
      .update(value)
      .digest('hex')
      .slice(0, 32)
  const look = (): PrivateAnswers => {
    const now = dictionary()
    if (now !== seen) {
      for (const { stream } of resources)
        held.set(stream, new Map([...rulesOf(now, stream), ...(held.get(stream) ?? [])]))
      answers = null
      seen = now
    }
    answers ??= privateAnswers((stream) => held.get(stream) ?? noRules, { resources, maskKey, fingerprint })
    return answers
  }
  return {
    /** Tells values apart without showing them. */
    fingerprint,
    answers: ((path) => look()(path)) as PrivateAnswers,
    /** What the dictionary says of a stream now, as it is noted. */
    wanted: (stream: string) => wantedOf(streamsBeside(resources, stream), dictionary(), maskKey),
    /** Whether answers are as this rule says, also where records of its stream are nested. Of a stream that is not known here, nothing is. */
    hides(stream: string, { field, rule, keyMark }: NotedRule): boolean {
      look()
      if (resources.every((one) => one.stream !== stream)) return true
      const mine = streamsBeside(resources, stream).flatMap((one) => held.get(one)?.get(field) ?? [])
      return mine.some((one) => ruleText(one) === rule && keyMarkOf(one, maskKey) === keyMark)
    },
    /** What a record of the stream is called where it is nested in others, folded: `customer` and `customers`. */
    namesOf: (stream: string): readonly string[] =>
      resources
        .filter((one) => one.stream === stream)
        .map(({ resource }) => foldField(resource))
        .flatMap((name) => [name, `${name}s`]),
    /** From now on answers are as `wanted` says. Until then they are at least as they were: reading under the rules before may still go on. */
    takeUp(stream: string): void {
      look()
      const [rules, before] = [rulesOf(dictionary(), stream), held.get(stream) ?? noRules]
      const isSame = ([field, rule]: readonly [string, Rule]) => isSameRule(rule, before.get(field))
      if (rules.size === before.size && [...rules].every(isSame)) return
      held.set(stream, rules)
      answers = null
    },
  }
}

/** Attachments and their bytes are one resource: what is hidden of the one is hidden of the other. */
function streamsBeside(resources: readonly Resource[], stream: string): readonly string[] {
  const own = resources.filter((one) => one.stream === stream).map(({ resource }) => resource)
  const beside = resources.filter(({ resource }) => own.includes(resource)).map((one) => one.stream)
  return [...new Set([stream, ...beside])]
}

function wantedOf(
  streams: readonly string[],
  dictionary: Dictionary,
  maskKey: string | null,
): readonly NotedRule[] {
  const rules = streams.flatMap((stream) => rulesToNote(dictionary, stream, maskKey))
  return rules.filter(({ field }, index) => rules.findIndex((one) => one.field === field) === index)
}

/** What is hidden in the answers to requests of a path; null: nothing. */
export type PrivateAnswers = (path: string) => Hiding | null

/**
 * In an answer, the rules of a stream hold for the fields of its records, however deep they are nested. Inside a member that is called
 * like another resource (`customer` in an assignment), the rules of that one hold instead.
 */
function privateAnswers(
  rules: (stream: string) => Rules,
  context: Pick<Needs, 'resources' | 'maskKey'> & { readonly fingerprint: (value: Buffer) => string },
): PrivateAnswers {
  const { resources, maskKey, fingerprint } = context
  const rulesBy = new Map<string, Rules>()
  for (const { stream, resource } of resources) {
    const name = foldField(resource)
    rulesBy.set(name, new Map([...(rulesBy.get(name) ?? []), ...rules(stream)]))
  }
  if ([...rulesBy.values()].every(({ size }) => size === 0)) return () => null
  const other = (value: Buffer) =>
    JSON.stringify(`left out: it is no object; fingerprint ${fingerprint(value)}`)
  const resourceIn = (name: string) => {
    const folded = foldField(name)
    return [folded, folded.replace(/s$/, '')].find((one) => rulesBy.has(one)) ?? null
  }
  const hidings = new Map<string, Hiding>()
  const hidingIn = (resource: string): Hiding => {
    const known = hidings.get(resource)
    if (known) return known
    const own = rulesBy.get(resource) ?? noRules
    const hiding = openHiding({
      hidesOwn: own.size > 0,
      other,
      of: (name) => hideBy(own.get(foldField(name)), maskKey),
      inside: remembered((name) => {
        const inner = resourceIn(name)
        return inner === null ? hiding : hidingIn(inner)
      }),
    })
    hidings.set(resource, hiding)
    return hiding
  }
  return remembered((path) => {
    const resource = path
      .split('/')
      .reverse()
      .map(resourceIn)
      .find((one) => one !== null)
    return hidingIn(resource ?? '')
  })
}

function hideBy(rule: Rule | undefined, maskKey: string | null): Hide | undefined {
  if (!rule) return undefined
  return rule.kind === 'omit' ? null : (value) => masked(rule, value, maskKey)
}

const mostRemembered = 2_000

/** Of so many names: an upstream may make up a new one for each record (P10). */
function remembered<Value>(of: (name: string) => Value): (name: string) => Value {
  const known = new Map<string, { readonly value: Value }>()
  return (name) => {
    const found = known.get(name)
    if (found) return found.value
    const value = of(name)
    if (known.size < mostRemembered) known.set(name, { value })
    return value
  }
}
