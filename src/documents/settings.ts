// The settings of a program, who is told of problems, and the fields that were seen.

import { z } from 'zod'
import { formOf } from '../problems/alert-body.ts'
import type { Alerting } from '../problems/receivers.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { readFields } from '../store/book/dictionary.ts'
import { readSilences, type Silence } from '../store/book/silences.ts'
import { environmentSource } from '../streams/names.ts'
import type { Setting, Settings } from '../streams/settings.ts'
import { snakeCased } from '../util/text.ts'
import {
  amount,
  document,
  type Facts,
  heldText,
  list,
  measure,
  nameIn,
  streamName,
  time,
  withRelated,
} from './document.ts'

const source = z.enum(['override', 'environment', '.env', 'SOURCES_FILE', 'demo', 'file', 'default'])
const layer = z.object({ value: z.string(), source, file: z.string().nullable() })
const setting = z
  .object({
    name: z.string(),
    value: z.string().nullable().describe('null: the default holds; of a secret only that it is set'),
    source,
    file: z.string().nullable(),
    default: z.string().nullable(),
    instead_of: list(layer).describe('what would hold instead, the first if nothing else changes'),
    override: z.object({ value: z.string(), by: z.string(), at: time }).nullable(),
    can_change_while_running: z.boolean(),
    secret: z.boolean(),
    stream: z.string().nullable(),
    problem: z.string().nullable(),
    ignored_without: z.string().nullable().describe('it is ignored, because this variable is not set'),
    meaning: z.string(),
    form: z.string().describe('how its value is written'),
  })
  .meta({ id: 'Setting' })

function settingJson({ name, value, source: from, file, beneath, override, ...more }: Setting) {
  const layers = [...beneath, { value, source: from }]
  return {
    name,
    value: from === 'default' ? null : value,
    source: from,
    file,
    default: layers.find((one) => one.source === 'default')?.value ?? null,
    instead_of: beneath,
    override: override && { value: override.value, by: override.by, at: override.at },
    can_change_while_running: more.isDynamic,
    secret: more.isSecret,
    stream: more.stream,
    problem: more.problem,
    ignored_without: more.lacks,
    meaning: more.meaning,
    form: more.form,
  }
}

export const settingsJson = ({ source: whose, settings: all, unknown }: Settings) => ({
  of_source: whose || environmentSource,
  settings: all.map(settingJson),
  unknown: unknown.map(({ meant, ...rest }) => ({ ...rest, did_you_mean: meant })),
})

export const settings = document({
  path: '/settings',
  title: 'The settings of the worker that answers, and where each comes from; secrets are hidden',
  asked: z.strictObject({
    source: heldText
      .max(63)
      .default(environmentSource)
      .describe('those of one source; left out: of the one that the environment describes'),
  }),
  answer: z.object({
    of_source: z.string(),
    settings: list(setting),
    unknown: list(
      z.object({ name: z.string(), source: z.string(), did_you_mean: z.string().nullable() }),
    ).describe('variables that are no settings'),
  }),
  read: async (facts: Pick<Facts, 'settings'>, asked) => settingsJson(await facts.settings(asked.source)),
})

const from = z.enum(['ALERT_WEBHOOK_URL', 'file', 'console']).describe('where it was set up')
const rule = z.object({
  name: z.string().nullable().describe('of a rule that was set up in the console'),
  from,
  to: list(z.string()),
  kinds: list(z.string()).nullable().describe('null: all'),
  streams: list(z.string()).nullable().describe('null: all'),
  sources: list(z.string()).nullable().optional().describe('null: all'),
  after_ms: amount,
  quiet: z
    .object({ from: amount, to: amount, timeZone: z.string() })
    .nullable()
    .describe('minutes of the day in which nobody is told'),
})
const silence = z.object({
  target: z.string(),
  until: time.nullable().describe('null: until it is over or gets worse'),
  at: time,
  by: z.string(),
  reason: z.string(),
})

export const alertsJson = (
  { receivers, rules, targets, remarks, unusable }: Alerting,
  problems: readonly Problem[],
  silences: readonly Silence[],
) => ({
  receivers: receivers.map((receiver) => ({
    name: receiver.name,
    format: formOf(receiver),
    from: receiver.from,
  })),
  rules: rules.map(snakeCased),
  targets,
  remarks,
  unusable,
  silences: silences.map(snakeCased),
  problems: problems.map(({ key, kind, stream, since, what }) => ({ key, kind, stream, since, what })),
})

export const alerts = document({
  path: '/alerts',
  title: 'Who is told of which problems, and what is muted or acknowledged',
  asked: z.strictObject({}),
  answer: z.object({
    receivers: list(z.object({ name: z.string(), format: z.string(), from })),
    rules: list(rule),
    targets: z.record(z.string(), z.record(z.string(), amount)).describe('milliseconds, by stream and time'),
    remarks: list(z.string()),
    unusable: list(z.string()).describe('what was set up in the console and cannot be used'),
    silences: list(silence),
    problems: list(
      z.object({
        key: z.string(),
        kind: z.string(),
        stream: z.string().nullable(),
        since: time.nullable(),
        what: z.string(),
      }),
    ),
  }),
  async read(facts: Pick<Facts, 'pool' | 'alerting' | 'problems'>) {
    return alertsJson(facts.alerting(), await facts.problems(), await readSilences(facts.pool))
  },
})

const field = z
  .object({
    stream: z.string(),
    source_name: z.string().describe('its name at the upstream'),
    column_name: z.string().nullable(),
    column_type: z.string().nullable(),
    label: z.string().nullable(),
    unit: z.string().nullable(),
    meaning: z.string().nullable(),
    allowed: z.string().nullable(),
    refers_to: z.string().nullable(),
    null_share: measure.nullable(),
    rescued: amount.describe('values that did not fit the column'),
    first_seen_at: time,
    last_seen_at: time,
    note: z.string().nullable(),
  })
  .meta({ id: 'Field' })

const mostFields = 10_000

export const dictionary = document({
  path: '/dictionary',
  title: 'Every field that was seen, with its column and what it means',
  asked: z.strictObject({
    stream: streamName.optional(),
    text: heldText.max(100).default('').describe('only those whose name, column or label holds it'),
  }),
  answer: list(field),
  async read({ pool, catalogue }: Pick<Facts, 'pool' | 'catalogue'>, { stream, text }) {
    const wanted = { stream: nameIn(withRelated(catalogue), stream), text }
    return (await readFields(pool, wanted, mostFields)).map(snakeCased)
  },
})
