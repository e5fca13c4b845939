// Changing a setting while workers run, and undoing that.

import { noteOverride, readOverrides, removeOverride } from '../store/book/overrides.ts'
import { layerInWords, type Setting } from '../streams/settings.ts'
import { UsageError } from '../util/errors.ts'
import { nearest, sentence } from '../util/text.ts'
import type { MirrorContext, Order, Outcome } from './mirror-actions.ts'
import type { Deed } from './record-action.ts'

const takenUp = 'Every worker takes it up within five seconds; runs that are under way end as they began.'

async function setSetting(context: MirrorContext, { target: name, fields, by }: Order): Promise<Outcome> {
  const override = { name, value: fields.value?.trim() ?? '' }
  const problem = context.settings.problemOf(override)
  if (problem !== null) throw new UsageError(`${sentence(problem)} Nothing was changed.`)
  const before = await settingNamed(context, name)
  await noteOverride(context.pool, { ...override, by })
  return outcomeOf(name, await settingNamed(context, name), before)
}

/** Also of one that this version does not know. */
async function unsetSetting(context: MirrorContext, { target: name }: Order): Promise<Outcome> {
  const before = await settingNamed(context, name)
  if (await removeOverride(context.pool, name))
    return outcomeOf(name, await settingNamed(context, name), before)
  const [near] = nearest(
    name,
    (await readOverrides(context.pool)).map((one) => one.name),
  )
  throw new UsageError(
    `${name.slice(0, 100)} was not changed while workers run: there is nothing to undo.${near ? ` Did you mean ${near}?` : ''}`,
  )
}

export const settingActions = { setSetting, unsetSetting }

/** What is recorded of an action besides. */
export const aboutSetting = (context: MirrorContext, name: string): Pick<Deed, 'stream' | 'standing'> => ({
  stream: context.settings.shown([]).settings.find((one) => one.name === name)?.stream ?? null,
  async standing() {
    const setting = await settingNamed(context, name)
    return { [name.slice(0, 100)]: setting ? layerInWords(setting) : 'unknown' }
  },
})

const settingNamed = async ({ pool, settings }: MirrorContext, name: string): Promise<Setting | undefined> =>
  settings.shown(await readOverrides(pool)).settings.find((one) => one.name === name)

function outcomeOf(name: string, now: Setting | undefined, before: Setting | undefined): Outcome {
  if (now === undefined)
    return { text: `${name} was removed. This version knows no such setting.`, json: { name } }
  const { value, source } = now
  const json = { name, value, source, before: before && { value: before.value, source: before.source } }
  const was = before === undefined ? '' : `; before: ${layerInWords(before)}`
  return { text: `${name} is now ${layerInWords(now)}${was}. ${takenUp}`, json }
}
