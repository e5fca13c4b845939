// The behaviour switches as they are written on a command line.

import { type Behaviour, type Switch, type SwitchName, switches, switchNames } from './behaviour.ts'

const kebabCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

export type SwitchOption = {
  readonly name: SwitchName
  readonly option: string
  readonly isFlag: boolean
  /** How its value is named, e.g. `N`, or the words to choose from. */
  readonly value: string
  readonly describe: string
}

export const switchOptions: readonly SwitchOption[] = switchNames.map((name) => {
  const { kind, describe, initial }: Switch<unknown> = switches[name]
  const fallback = kind === 'flag' || initial === null ? '' : ` (${String(initial)})`
  return {
    name,
    option: kebabCase(name),
    isFlag: kind === 'flag',
    value: valueName(kind),
    describe: `${describe}${fallback}`,
  }
})

function valueName(kind: Switch<unknown>['kind']): string {
  if (typeof kind !== 'string') return kind.join('|')
  const names = { flag: '', count: 'N', 'optional-count': 'N|none', fraction: '0…1' }
  return { ...names, 'optional-text': 'NAME', names: 'NAME,…' }[kind]
}

/** The value of one switch, or what to write instead. */
export function readSwitch(name: SwitchName, text: string): Partial<Behaviour> | { readonly wrong: string } {
  const { kind }: Switch<unknown> = switches[name]
  const value = typeof kind === 'string' ? readValue(kind, text) : kind.find((word) => word === text)
  if (value === undefined)
    return {
      wrong: `"${text}" should be ${typeof kind === 'string' ? wanted(kind) : `one of ${kind.join(', ')}`}`,
    }
  return { [name]: value }
}

function readValue(kind: Extract<Switch<unknown>['kind'], string>, text: string): unknown {
  const isCount = /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 2_147_483_647
  switch (kind) {
    case 'flag':
      return true
    case 'count':
      return isCount ? Number(text) : undefined
    case 'optional-count':
      return text === 'none' ? null : isCount ? Number(text) : undefined
    case 'fraction':
      return text !== '' && Number(text) >= 0 && Number(text) <= 1 ? Number(text) : undefined
    case 'optional-text':
      return text === '' ? undefined : text
    case 'names':
      return text === '' ? undefined : text.split(',').map((name) => name.trim())
  }
}

function wanted(kind: Extract<Switch<unknown>['kind'], string>): string {
  if (kind === 'fraction') return 'a number from 0 to 1'
  if (kind === 'count') return 'a whole number from 1 to 2147483647'
  if (kind === 'optional-count') return 'a whole number from 1 to 2147483647, or none'
  return kind === 'names' ? 'names with commas between them' : 'a name'
}
