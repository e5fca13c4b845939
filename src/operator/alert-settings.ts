// Receivers of alerts and rules are set up, changed, removed and brought back while workers run. Secrets are encrypted before they get to
// Postgres, and stand in no answer and in no record (P9).

import type { AlertKeeping } from '../problems/receivers.ts'
import {
  type AlertSetting,
  noteAlertSetting,
  readAlertSettings,
  readStreamNames,
  swapAlertSetting,
} from '../store/book/alert-settings.ts'
import { UsageError } from '../util/errors.ts'
import { nearest } from '../util/text.ts'
import type { MirrorContext, Order, Outcome } from './mirror-actions.ts'
import type { Deed } from './record-action.ts'

const takenUp = 'Every worker takes it up within five seconds.'
const most = 100
const longest = 4_000

const own = async ({ pool }: MirrorContext, key: string): Promise<AlertSetting | undefined> =>
  (await readAlertSettings(pool)).find((one) => one.key === key)

const withoutReason = ({ reason: _, ...said }: Order['fields']) => said

async function setReceiver(context: MirrorContext, { target: name, fields, by }: Order): Promise<Outcome> {
  const key = `receiver:${name}`
  const { alerting, pool } = context
  const keeping = alerting()
  const place = keeping.fixed.get(name)
  const onlyThere = `Nothing was changed: ${name} is set up by ${place}, and can be changed only there.`
  if (place !== undefined) throw new UsageError(onlyThere, { field: 'target' })
  const all = await readAlertSettings(pool)
  const before = all.find((one) => one.key === key)?.value ?? null
  await keep(context, all, key, keeping.receiver(name, withoutReason(fields), before), by)
  const next =
    rulesFor(name, all).length > 0
      ? 'Send it a test message to see that it arrives.'
      : 'Send it a test message to see that it arrives, and add a rule that names it: until then it is told nothing.'
  return {
    text: `The receiver ${name} was ${before === null ? 'added' : 'changed'}. ${takenUp} ${next}`,
    json: { key, removed: false },
  }
}

async function setRule(context: MirrorContext, { target: name, fields, by }: Order): Promise<Outcome> {
  const key = `rule:${name}`
  const { alerting, pool, streams } = context
  const keeping = alerting()
  const all = await readAlertSettings(pool)
  const known = {
    receivers: [
      ...keeping.fixed.keys(),
      ...all.flatMap((one) => (one.key.startsWith('receiver:') && one.value !== null ? nameIn(one.key) : [])),
    ],
    streams: [...new Set([...streams.map((one) => one.name), ...(await readStreamNames(pool))])],
  }
  await keep(context, all, key, keeping.rule(name, withoutReason(fields), known), by)
  const isNew = !all.some((one) => one.key === key && one.value !== null)
  return {
    text: `The rule ${name} was ${isNew ? 'added' : 'changed'}. ${takenUp}`,
    json: { key, removed: false },
  }
}

async function removeAlerting(context: MirrorContext, { target: key, by }: Order): Promise<Outcome> {
  const before = await own(context, key)
  if (!before?.value || !(await noteAlertSetting(context.pool, { key, value: null, by })))
    throw new UsageError(await noSuch(context, key))
  const naming = key.startsWith('rule:') ? [] : rulesFor(nameIn(key), await readAlertSettings(context.pool))
  const rules = naming.join(', ')
  return {
    text: `The ${inWords(key)} was removed. ${takenUp} It can be brought back for seven days.${rules === '' ? '' : ` These rules still name it: ${rules}.`}`,
    json: { key, removed: true },
  }
}

async function undoAlerting(context: MirrorContext, { target: key, by }: Order): Promise<Outcome> {
  if (!(await swapAlertSetting(context.pool, key, by))) throw new UsageError(await noSuch(context, key))
  const removed = !(await own(context, key))?.value
  return {
    text: `The ${inWords(key)} is ${removed ? 'removed' : 'as it was before the last change'}. ${takenUp}`,
    json: { key, removed },
  }
}

export const alertSettingActions = { setReceiver, setRule, removeAlerting, undoAlerting }

async function keep(
  { pool }: MirrorContext,
  all: readonly AlertSetting[],
  key: string,
  judged: ReturnType<AlertKeeping['receiver']>,
  by: string,
): Promise<void> {
  if ('problem' in judged)
    throw new UsageError(`${judged.problem} Nothing was changed.`, { field: judged.field })
  if (JSON.stringify(judged.value).length > longest)
    throw new UsageError(`That has more than ${longest} characters. Nothing was changed.`)
  if (all.length >= most && all.every((one) => one.key !== key))
    throw new UsageError(
      `There are ${most} receivers and rules already: remove some first, or use the file that ALERTS names. Nothing was changed.`,
    )
  await noteAlertSetting(pool, { key, value: judged.value, by })
}

const nameIn = (key: string): string => key.slice(key.indexOf(':') + 1)
/** The rules of the console that name a receiver. */
const rulesFor = (receiver: string, all: readonly AlertSetting[]): readonly string[] =>
  all.flatMap(({ key, value }) => {
    const told = (value?.to ?? '').split(',').map((one) => one.trim())
    return key.startsWith('rule:') && told.includes(receiver) ? nameIn(key) : []
  })
const inWords = (key: string): string => key.replace(':', ' ')

async function noSuch({ pool }: MirrorContext, key: string): Promise<string> {
  const known = (await readAlertSettings(pool)).map((one) => one.key)
  const [near] = nearest(key, known)
  return `Nothing was changed: no such receiver or rule was set up in the console.${near ? ` Did you mean ${near}?` : ''} Write receiver:NAME or rule:NAME.`
}

const receiverFields = ['format', 'smtp', 'from', 'to']
const ruleFields = ['to', 'kinds', 'streams', 'sources', 'after', 'quiet']

/** Of the record. A secret that somebody typed for a name stays out of it (P9). */
export function aboutAlerting(
  context: MirrorContext,
  action: string,
  target: string,
): Pick<Deed, 'target' | 'standing'> {
  const kind = action === 'setReceiver' ? 'receiver:' : action === 'setRule' ? 'rule:' : ''
  const key = `${kind}${target}`
  return {
    target: /^(?:receiver|rule):[\w-]{1,40}$/.test(key) ? key : 'something that cannot be a name',
    async standing() {
      const { value } = (await own(context, key)) ?? {}
      if (value === undefined) return null
      const names = key.startsWith('rule:') ? ruleFields : receiverFields
      return {
        ...Object.fromEntries(names.map((name) => [name, value?.[name] ?? null])),
        ...(value?.sealed !== undefined && { secrets: 'set' }),
        removed: value === null,
      }
    },
  }
}
