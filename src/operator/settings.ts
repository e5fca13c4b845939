// Changing a setting while workers run, and undoing that. A setting of a source that has a name is called `acme.PAGE_SIZE`.

import { noteOverride, readOverrides, removeOverride } from '../store/book/overrides.ts'
import { type AppliedSource, readAppliedSources } from '../store/book/source-config.ts'
import { environmentSource, keyIn, sourceIn } from '../streams/names.ts'
import { layerInWords, type Setting, type SettingRules, type Settings } from '../streams/settings.ts'
import { NotThere, UsageError } from '../util/errors.ts'
import { nearest, sentence } from '../util/text.ts'
import type { MirrorContext, Order, Outcome } from './mirror-actions.ts'
import type { Deed } from './record-action.ts'

/** The rules of a source, of which the file of sources says this. */
export type RulesOf = (source: string, said: AppliedSource['settings']) => SettingRules
type Given = {
  readonly pool: Parameters<typeof readOverrides>[0]
  readonly settings: RulesOf
}

const takenUp = 'Every worker takes it up within five seconds; runs that are under way end as they began.'

async function setSetting(context: MirrorContext, { target: name, fields, by }: Order): Promise<Outcome> {
  const [source, own] = parted(name)
  const override = { name: own, value: fields.value?.trim() ?? '' }
  const { rules, isGone } = await rulesIn(context, source)
  if (isGone)
    throw new UsageError(
      `The file of sources does not name ${source} any more, so nobody reads it. Nothing was changed.`,
    )
  const problem = rules.problemOf(override)
  if (problem !== null) throw new UsageError(`${sentence(problem)} Nothing was changed.`, { field: 'value' })
  const before = await settingNamed(context, name)
  await noteOverride(context.pool, { ...override, name, by })
  return outcomeOf(name, await settingNamed(context, name), before)
}

/** Also of one that this version does not know. */
async function unsetSetting(context: MirrorContext, { target: name }: Order): Promise<Outcome> {
  const before = await settingNamed(context, name)
  if (await removeOverride(context.pool, name))
    return outcomeOf(name, await settingNamed(context, name), before)
  const [source] = parted(name)
  const changed = (await readOverrides(context.pool, source)).map((one) => keyIn(source, one.name))
  const [near] = nearest(name, changed)
  throw new UsageError(
    `${name.slice(0, 100)} was not changed while workers run: there is nothing to undo.${near ? ` Did you mean ${near}?` : ''}`,
  )
}

export const settingActions = { setSetting, unsetSetting }

/** What is recorded of an action besides. */
export const aboutSetting = async (
  context: MirrorContext,
  name: string,
): Promise<Pick<Deed, 'stream' | 'standing'>> => ({
  stream: (await settingNamed(context, name))?.stream ?? null,
  async standing() {
    const setting = await settingNamed(context, name)
    return { [name.slice(0, 100)]: setting ? layerInWords(setting) : 'unknown' }
  },
})

/** All settings of a source, with what was changed while workers run. Rejects when there is none of that name. */
export async function readSettingsOf(given: Given, asked = ''): Promise<Settings> {
  const source = asked === environmentSource ? '' : asked
  const { rules } = await rulesIn(given, source)
  return rules.shown(await readOverrides(given.pool, source))
}

const parted = (name: string): readonly [source: string, own: string] => {
  const source = sourceIn(name)
  return [source, name.slice(keyIn(source, '').length)]
}

async function rulesIn(
  { pool, settings }: Given,
  source: string,
): Promise<{ readonly rules: SettingRules; readonly isGone: boolean }> {
  if (source === '') return { rules: settings('', {}), isGone: false }
  const known = new Map((await readAppliedSources(pool)).map((one) => [one.name, one]))
  const found = known.get(source)
  if (found) return { rules: settings(source, found.settings), isGone: found.goneAt !== null }
  const [near] = nearest(source, [...known.keys()])
  throw new NotThere(
    `There is no source ${source.slice(0, 100)}.${near ? ` Did you mean ${near}?` : ' `tidemark sources list` shows which there are.'}`,
  )
}

/** Undefined: there is none of that name, or no such source. */
async function settingNamed(context: MirrorContext, name: string): Promise<Setting | undefined> {
  const [source, own] = parted(name)
  try {
    const { settings } = await readSettingsOf(context, source)
    return settings.find((one) => one.name === own)
  } catch (error) {
    if (error instanceof NotThere) return undefined
    throw error
  }
}

function outcomeOf(name: string, now: Setting | undefined, before: Setting | undefined): Outcome {
  if (now === undefined)
    return { text: `${name} was removed. This version knows no such setting.`, json: { name } }
  const { value, source } = now
  const json = { name, value, source, before: before && { value: before.value, source: before.source } }
  const was = before === undefined ? '' : `; before: ${layerInWords(before)}`
  return { text: `${name} is now ${layerInWords(now)}${was}. ${takenUp}`, json }
}
