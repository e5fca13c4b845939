import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { type Command, expectNoWords, findAction, wholeNumber } from '../../src/cli/command.ts'
import { exitCodeOf, exitCodeOfRun, exitCodes, Interrupted, worst } from '../../src/cli/exit.ts'
import { alignedTable, fittedTable, hasUtf8, openOutput } from '../../src/cli/output.ts'
import { commandHelp, findVerb, parseCall, programHelp } from '../../src/cli/parse.ts'
import { verbs } from '../../src/cli/verbs.ts'
import { ConfigError } from '../../src/config/environment.ts'
import { pickStreams, knownStreams as streams } from '../../src/streams/catalog.ts'
import { UpstreamError } from '../../src/upstream/http/errors.ts'
import { DatabaseError, UsageError } from '../../src/util/errors.ts'

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
      source: null,
      isSourceSaid: false,
      wantsHelp: false,
    })
  })

  it('suggests the nearest verb and option, when there is one', () => {
    expect(problem(() => findVerb({ water: 1, weed: 2 }, 'watr'))).toContain('Did you mean `tidemark water`?')
    expect(problem(() => findVerb({ water: 1 }, 'constructor'))).toContain('`tidemark --help`')
    expect(problem(() => parseCall(command, ['--liters', '2']))).toContain('Did you mean --litres?')
    expect(problem(() => parseCall(command, ['--xyzzyxyz']))).toContain('`tidemark water --help`')
  })

  it('says how a word is written that begins with a dash, such as a query with a comment before it', () => {
    const advice = 'To begin a word with a dash that is no option, write -- before it.'
    for (const word of ['-5', '-- how many\nselect 1'])
      expect(problem(() => parseCall(command, [word]))).toContain(advice)
    expect(parseCall(command, ['--', '-- how many\nselect 1']).positionals).toEqual(['-- how many\nselect 1'])
    expect(problem(() => parseCall(command, ['-x']))).not.toContain(advice)
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
      expect(problem(() => litres(wrong))).toBe(
        `--litres must be a whole number from 1 to 50, not "${wrong}".`,
      )
  })

  it('takes no words after a verb that has none', () => {
    const words = { positionals: ['foo', 'bar'] }
    expect(problem(() => expectNoWords('water', words))).toBe(
      '`tidemark water` takes options only, and was given "foo".',
    )
    expect(problem(() => expectNoWords('water', { positionals: [] }))).toBe('no problem')
  })

  it('says which words a verb takes that was given none', () => {
    expect(problem(() => findAction('water', { fern: 1, moss: 2 }, ''))).toBe(
      '`tidemark water` needs one of fern, moss. `tidemark water --help` shows how.',
    )
    for (const word of ['', 'moss'])
      expect(problem(() => findAction('water', { fern: 1 }, word))).toBe('Write `tidemark water fern`.')
  })

  it('shows options and examples in the help', () => {
    const help = commandHelp(command)
    expect(help).toContain('Usage: tidemark water [plant…]')
    expect(help).toContain('--with THING  what else (may be repeated)')
    expect(help).toContain('tidemark water fern --litres 2')
  })

  it.each([60, 80])(
    'wraps the help to a terminal of %d columns, but for what is copied from it',
    async (width) => {
      const all = await Promise.all(Object.values(verbs).map((load) => load()))
      const helps = [...all.map((one) => commandHelp(one, width)), programHelp(all, width)]
      for (const help of helps) {
        const [before = '', after = ''] = help.split(/\nExamples:\n(?: {2}\S.*\n)+/)
        // One word may be longer than its line.
        for (const line of `${before}\n${after}`.split('\n'))
          if (line.length > width)
            expect(Math.max(...line.split(' ').map((word) => word.length))).toBeGreaterThan(width - 40)
      }
      const [line] = commandHelp(command, width).split('\n')
      expect(line).toBe('Water the plants.')
      // Piped, it stays as programs know it.
      expect(programHelp(all)).toContain(
        'compare streams with the whole list of the upstream, and correct the rows',
      )
    },
  )

  it('picks each stream once, and suggests the nearest name', () => {
    expect(pickStreams([], streams)).toBe(streams)
    expect(pickStreams(['assignment', 'assignment'], streams).map(({ name }) => name)).toEqual(['assignment'])
    expect(problem(() => pickStreams(['asignment'], streams))).toContain('did you mean assignment?')
  })
})

describe('sentences', () => {
  const text =
    'Deletions are blocked: `tidemark deletions list` shows why they are.\n  and so on, as far as it goes here'
  const told = (terminal: { isTTY?: boolean; columns?: number }) => {
    const stream = Object.assign(new PassThrough(), terminal)
    openOutput(stream, { LANG: 'C.UTF-8' }).tell(text)
    return String(stream.read())
  }
  it('are broken between words where a terminal is narrow, and no command is', () => {
    expect(told({ isTTY: true, columns: 40 }).split('\n')).toEqual([
      'Deletions are blocked:',
      '`tidemark deletions list` shows why they',
      'are.',
      '  and so on, as far as it goes here',
      '',
    ])
  })
  it('stay as they are in a pipe', () => expect(told({})).toBe(`${text}\n`))
})

describe('fittedTable', () => {
  it('cuts lines at the width of a terminal, and none in a pipe', () => {
    const table = (width: number | null) =>
      fittedTable(['ID', 'REASON'], [['1', 'it was asked for']], { columns: () => width })
    expect(table(12)).toBe('ID  REASON\n1   it was …')
    expect(table(null)).toBe('ID  REASON\n1   it was asked for')
  })
})

describe('alignedTable', () => {
  it('keeps a row in its line, whatever its cells hold', () => {
    expect(alignedTable(['id', 'record'], [['1', 'a\u001b[2J\nb\u202ec']])).toBe(
      'id  record\n1   a\\u{1b}[2J b\\u{202e}c',
    )
  })
})

describe('the exit status', () => {
  const upstreamError = new UpstreamError({
    code: 'UPSTREAM_UNREACHABLE',
    method: 'GET',
    path: '/',
    retryable: true,
    problem: 'nobody answered.',
  })
  const ofPostgres = Object.assign(new Error('no space'), { severity: 'ERROR', code: '53100' })
  it.each([
    ['a wrong word', new UsageError('?'), 2],
    ['a wrong configuration', new ConfigError('?'), 2],
    ['an upstream that is away', upstreamError, 3],
    ['a Postgres that cannot be reached', new DatabaseError('?'), 4],
    ['what Postgres refuses', ofPostgres, 4],
    ['a connection that broke', new Error('Connection terminated unexpectedly'), 4],
    ['what one of these caused', new Error('?', { cause: upstreamError }), 3],
    ['an interruption', new Interrupted('?'), 130],
    ['anything else', new TypeError('?'), 1],
    ['what is no error', 'text', 1],
  ])('after %s', (_what, error, code) => {
    expect(exitCodeOf(error)).toBe(code)
  })

  it('of a run says what a person should look at', () => {
    const run = (status: 'done' | 'failed' | 'skipped' | 'stopped', error: Error | null = null) =>
      exitCodeOfRun({ status, error })
    expect([run('done'), run('skipped'), run('stopped')]).toEqual([0, 0, 130])
    expect([run('failed', upstreamError), run('failed', ofPostgres), run('failed', new Error('?'))]).toEqual([
      3, 4, 1,
    ])
    // Whoever called it did so rightly.
    expect(run('failed', new UsageError('?'))).toBe(1)
  })

  it('of several is that of the gravest, and is told in the help', () => {
    expect(worst([])).toBe(0)
    expect(worst([0, 1, 3, 0])).toBe(3)
    expect(worst([1, 4, 3])).toBe(4)
    expect(worst([4, 130])).toBe(130)
    const [line = ''] = /^Exit status: .+$/m.exec(programHelp([command])) ?? []
    for (const code of Object.values(exitCodes)) expect(line).toMatch(new RegExp(`\\b${code} \\w`))
  })
})

describe('the output', () => {
  const output = (environment: Record<string, string>, isTTY: boolean) => {
    const stream = Object.assign(new PassThrough({ encoding: 'utf8' }), { isTTY })
    const opened = openOutput(stream, environment)
    return { ...opened, read: () => String(stream.read() ?? '') }
  }

  it('has colours on a terminal that wants them, and its signs everywhere', () => {
    const utf8 = { LANG: 'en_GB.UTF-8' }
    expect(output(utf8, true).mark('good')).toBe('\x1b[32m✓\x1b[0m')
    expect(output({ ...utf8, NO_COLOR: '1' }, true).mark('good')).toBe('✓')
    expect(output({ ...utf8, NO_COLOR: '' }, true).mark('good')).toContain('\x1b[')
    expect(output({ ...utf8, TERM: 'dumb' }, true).mark('bad')).toBe('✗')
    expect(output(utf8, false).mark('bad')).toBe('✗')
  })

  it('is ASCII where the terminal shows nothing else', () => {
    const plain = output({ LANG: 'C' }, false)
    expect((['good', 'warning', 'bad'] as const).map(plain.mark)).toEqual(['*', '!', 'X'])
    plain.say('Starting … ✓ “it’s”')
    expect(plain.read()).toBe('Starting ... * "it\'s"\n')
    expect(hasUtf8({ LANG: 'C', LC_ALL: 'de_DE.utf8' })).toBe(true)
    expect(hasUtf8({ LANG: 'en_GB.UTF-8', LC_ALL: 'C' })).toBe(false)
    expect([hasUtf8({}, 'linux'), hasUtf8({}, 'darwin')]).toEqual([false, true])
  })

  it('lets nothing move the cursor of a person, and leaves documents as they are', () => {
    const out = output({}, true)
    expect(out.hasWritten()).toBe(false)
    out.say('\x1b[2Jgone')
    expect(out.read()).toBe('\\u{1b}[2Jgone\n')
    out.json({ text: '…' })
    expect(JSON.parse(out.read())).toEqual({ text: '…' })
    expect(out.hasWritten()).toBe(true)
  })
})
