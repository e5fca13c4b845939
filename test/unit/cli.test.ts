import { describe, expect, it } from 'vitest'
import type { Command } from '../../src/cli/command.ts'
import { alignedTable, wholeNumber } from '../../src/cli/command.ts'
import { commandHelp, expectNoWords, findVerb, parseCall } from '../../src/cli/parse.ts'
import { pickStreams, streams } from '../../src/streams/catalog.ts'
import { UsageError } from '../../src/util/errors.ts'

const command: Command = {
  name: 'water',
  summary: 'water the plants',
  usage: '[plant…]',
  options: {
    litres: { type: 'string', value: 'N', describe: 'how much' },
    json: { type: 'boolean', describe: 'as JSON' },
    with: { type: 'string', multiple: true, value: 'THING', describe: 'what else' },
  },
  examples: ['tidemark water fern --litres 2'],
  run: async () => 0,
}

const problem = (work: () => unknown): string => {
  try {
    work()
  } catch (error) {
    if (error instanceof UsageError) return error.message
    throw error
  }
  return 'no problem'
}

describe('the command line', () => {
  it('reads positionals, values, flags and repeated options', () => {
    expect(parseCall(command, ['fern', '--litres', '2', '--with=sun', '--with', 'song', '--json'])).toEqual({
      positionals: ['fern'],
      values: { litres: '2', with: ['sun', 'song'], json: true },
      wantsHelp: false,
    })
  })

  it('suggests the nearest verb and option, when there is one', () => {
    expect(problem(() => findVerb({ water: 1, weed: 2 }, 'watr'))).toContain('did you mean `tidemark water`?')
    expect(problem(() => findVerb({ water: 1 }, 'constructor'))).toContain('`tidemark --help`')
    expect(problem(() => parseCall(command, ['--liters', '2']))).toContain('did you mean --litres?')
    expect(problem(() => parseCall(command, ['--xyzzyxyz']))).toContain('`tidemark water --help`')
  })

  it('says when a value is missing or one too many', () => {
    expect(problem(() => parseCall(command, ['--litres']))).toContain(
      '--litres of `tidemark water` needs a value',
    )
    expect(problem(() => parseCall(command, ['--litres', '--json']))).toContain('needs a value')
    expect(problem(() => parseCall(command, ['--json=yes']))).toContain('takes no value')
  })

  it('reads whole numbers, and says which are taken', () => {
    const litres = (value?: string) =>
      wholeNumber(value === undefined ? {} : { litres: value }, 'litres', { least: 1, most: 50 })
    expect(litres()).toBeNull()
    expect(litres('50')).toBe(50)
    for (const wrong of ['0', '51', '-1', '1e1', '1.5', '', 'two', '99999999999999999999'])
      expect(problem(() => litres(wrong))).toBe(`--litres ${wrong}: write a whole number from 1 to 50`)
  })

  it('takes no words after a verb that has none', () => {
    const words = { positionals: ['foo', 'bar'] }
    expect(problem(() => expectNoWords('water', words))).toBe(
      '`tidemark water` takes no words, and was given "foo"',
    )
    expect(problem(() => expectNoWords('water', { positionals: [] }))).toBe('no problem')
  })

  it('shows options and examples in the help', () => {
    const help = commandHelp(command)
    expect(help).toContain('Usage: tidemark water [plant…]')
    expect(help).toContain('--with THING  what else (may be repeated)')
    expect(help).toContain('tidemark water fern --litres 2')
  })

  it('picks each stream once, and suggests the nearest name', () => {
    expect(pickStreams([], streams)).toBe(streams)
    expect(pickStreams(['assignment', 'assignment'], streams).map(({ name }) => name)).toEqual(['assignment'])
    expect(problem(() => pickStreams(['asignment'], streams))).toContain('did you mean assignment?')
  })
})

describe('alignedTable', () => {
  it('keeps a row in its line, whatever its cells hold', () => {
    expect(alignedTable(['id', 'record'], [['1', 'a\u001b[2J\nb\u202ec']])).toBe(
      'id  record\n1   a\\u{1b}[2J b\\u{202e}c\n',
    )
  })
})
