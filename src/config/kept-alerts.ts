// Receivers and rules that somebody set up while workers run, as Postgres keeps them: a list of texts for each, with the secrets of a
// receiver sealed by ALERT_SECRETS_KEY, which Postgres never sees. The same is allowed, and the same is said of what is not, as in the file of alerts.

import { z } from 'zod'
import { keepSecret } from '../log.ts'
import { environmentSource, sourceIn } from '../streams/names.ts'
import type { Proxies } from '../util/proxies.ts'
import { openSeal, type Seal } from '../util/seal.ts'
import { isNameOfReceiver, type Kinds, type Rule, ruleOf, ruleSchema } from './alert-file.ts'
import { type ReceiverSettings, receiverSchema, type Way, wayOf } from './alert-receivers.ts'
import { notKnown } from './yaml-file.ts'

export type Texts = Readonly<Record<string, string>>
/** `key`: `receiver:chat`, `rule:night`. */
export type AlertEntry = { readonly key: string; readonly value: Texts }
export type KeptSettings = ReturnType<typeof settingsOf>
/** `field`: the one that is wrong first; null: none alone. */
type Judged = { readonly value: Texts } | { readonly problem: string; readonly field: string | null }

export type KeptAlerts = ReturnType<typeof openKeptAlerts>
export type Known = {
  readonly receivers: readonly string[]
  readonly kinds: Kinds
  readonly streams: readonly string[]
}

type Around = {
  /** Null: no receiver can be kept. */
  readonly secretsKey: string | null
  readonly proxies: Proxies
  readonly allowPlaintext: boolean
}

const nothing: KeptSettings = { receivers: new Map(), rules: new Map(), problems: [] }

export function openKeptAlerts({ secretsKey, ...around }: Around) {
  const seal = secretsKey === null ? null : openSeal(secretsKey)
  let [entries, seen, read]: [readonly AlertEntry[], string, KeptSettings | null] = [[], '[]', nothing]
  const wayFrom = (key: string, value: Texts) => readReceiver(key, value, { ...around, seal })
  return {
    /** Why no receiver can be kept; null: they can. */
    keepsNone: seal === null ? noKey : null,
    takeUp(given: readonly AlertEntry[]) {
      const now = JSON.stringify(given)
      if (now !== seen) [entries, seen, read] = [given, now, null]
    },
    /** As they were taken up last. */
    now: (kinds: Kinds) => (read ??= settingsOf(entries, wayFrom, kinds)),
    /** What is to be kept of what somebody says of a receiver, or what is wrong with it. `before`: what is kept of it now. */
    receiver(
      name: string,
      { webhook, key, password, sealed: _, ...said }: Texts,
      before: Texts | null,
    ): Judged {
      if (!isNameOfReceiver(name)) return { problem: noName, field: 'target' }
      if (seal === null) return { problem: noKey, field: null }
      const id = `receiver:${name}`
      const secrets = Object.entries({ webhook, key, password }).filter(([, secret]) => secret !== undefined)
      // A secret that is not given again stays, but goes to no other server.
      const kept = before !== null && before.smtp === said.smtp ? before.sealed : undefined
      const sealed =
        secrets.length > 0
          ? seal.close(JSON.stringify(Object.fromEntries(secrets)), purposeOf(id, said))
          : kept
      const value = { ...said, ...(sealed !== undefined && { sealed }) }
      return judged(value, wayFrom(id, value))
    },
    rule(name: string, said: Texts, known: Known): Judged {
      if (!isNameOfReceiver(name)) return { problem: noName, field: 'target' }
      if (said.to === undefined) return { problem: noReceiverNamed, field: 'to' }
      return judged(said, readRule(`rule:${name}`, said, known))
    },
  }
}

const judged = (value: Texts, { problems, fields }: Complaints): Judged =>
  problems.length === 0 ? { value } : { problem: problems.join(' '), field: fields[0] ?? null }

/** Without what was given: somebody may have typed a secret there (P9). */
const noName =
  'A name has up to 40 letters, digits, _ and -, with a letter first, and is none of alerts, all and default.'
const noReceiverNamed = 'A rule needs at least one receiver that it tells.'
const noKey =
  'No receiver can be set up here, because the worker has no key to keep its secrets with. Set ALERT_SECRETS_KEY on all workers to a random text (`openssl rand -hex 32` makes one), and start them again.'

function settingsOf(
  entries: readonly AlertEntry[],
  wayFrom: (key: string, value: Texts) => Complaints & { readonly way: Way | undefined },
  kinds: Kinds,
) {
  const [receivers, rules, problems] = [new Map<string, Way>(), new Map<string, Rule>(), [] as string[]]
  for (const { key, value } of entries) {
    const name = key.slice(key.indexOf(':') + 1)
    if (key.startsWith('receiver:')) {
      const { way, problems: own } = wayFrom(key, value)
      problems.push(...own)
      if (way !== undefined && own.length === 0) receivers.set(name, way)
    } else {
      const { rule, problems: own } = readRule(key, value, { kinds, receivers: null, streams: null })
      problems.push(...own)
      if (rule !== undefined && own.length === 0) rules.set(name, rule)
    }
  }
  return { receivers, rules, problems }
}

/** A receiver is bound to its name and its server: what is stored for one cannot be sent to another. */
const purposeOf = (key: string, { smtp = '' }: Texts): string => JSON.stringify([key, smtp])

const secret = z.string().min(1, 'is empty').max(2_000, 'has more than 2000 characters')
const receiver = receiverSchema(secret)
const secretsInside = z.record(z.string(), z.string())

const inWords = (key: string): string => `The ${key.replace(':', ' ')} of the console:`

/** What is wrong, in sentences, and in which fields. */
type Complaints = { readonly problems: readonly string[]; readonly fields: readonly string[] }

function openComplaints(key: string) {
  const [problems, fields]: [string[], string[]] = [[], []]
  return {
    problems,
    fields,
    complain(setting: string | null, problem: string, field = setting) {
      if (field !== null) fields.push(field)
      problems.push(`${inWords(key)} ${setting === null ? 'it ' : `${setting} `}${problem}.`)
    },
  }
}

function checked<Value>(
  schema: z.ZodType<Value>,
  said: object,
  complain: (setting: string | null, problem: string) => void,
  known: readonly string[],
): Value | undefined {
  const { data, error } = schema.safeParse(said)
  for (const issue of error?.issues ?? [])
    if (issue.code !== 'unrecognized_keys') complain(String(issue.path[0] ?? ''), issue.message)
    else for (const one of issue.keys) complain(one, `is ${notKnown('setting', one, known)}`)
  return data
}

function readReceiver(
  key: string,
  { sealed, to, ...said }: Texts,
  { seal, ...around }: Omit<Around, 'secretsKey'> & { readonly seal: Seal | null },
): Complaints & { readonly way: Way | undefined } {
  const { problems, fields, complain } = openComplaints(key)
  const opened = sealed === undefined ? '{}' : (seal?.open(sealed, purposeOf(key, said)) ?? null)
  if (opened === null) {
    const why =
      seal === null
        ? 'is not set here'
        : 'is another one than it was set up with, or somebody changed what Postgres keeps of it'
    complain(
      null,
      `cannot be used by this worker, because ALERT_SECRETS_KEY ${why}. Give all workers the same key, or set the receiver up again`,
    )
    return { way: undefined, problems, fields }
  }
  const addresses = to === undefined ? {} : { to: to.split(/[\s,;]+/).filter(Boolean) }
  const whole = { ...said, ...addresses, ...secretsInside.parse(JSON.parse(opened)) }
  const settings: ReceiverSettings | undefined = checked(
    receiver,
    whole,
    complain,
    Object.keys(receiver.shape),
  )
  // P9: from now on nothing that this program says holds it.
  const secretOf = (_setting: string, text: string) => {
    keepSecret(text)
    return text
  }
  return { way: settings && wayOf(settings, { ...around, complain, secretOf }), problems, fields }
}

/** Null: any. What is not there any more is no mistake: nothing matches it. */
type KnownIfAny = {
  readonly kinds: Kinds
  readonly receivers: readonly string[] | null
  readonly streams: readonly string[] | null
}

function readRule(
  key: string,
  said: Texts,
  known: KnownIfAny,
): Complaints & { readonly rule: Rule | undefined } {
  const { problems, fields, complain } = openComplaints(key)
  const settings = checked(ruleSchema, said, complain, Object.keys(ruleSchema.shape))
  if (settings === undefined) return { rule: undefined, problems, fields }
  const { to, kinds = [], streams = [], sources = [] } = settings
  const knownSources = known.streams && [
    ...new Set(known.streams.map((one) => sourceIn(one) || environmentSource)),
  ]
  for (const [setting, words, allowed, what] of [
    ['to', to, known.receivers, 'receiver'],
    ['kinds', kinds, Object.keys(known.kinds), 'kind of problem'],
    ['streams', streams, known.streams, 'stream'],
    ['sources', sources, knownSources, 'source'],
  ] as const)
    for (const word of words)
      if (allowed !== null && !allowed.includes(word))
        complain(setting, `names ${word.slice(0, 60)}, which is ${notKnown(what, word, allowed)}`)
  return { rule: ruleOf(settings, known.kinds), problems, fields }
}
