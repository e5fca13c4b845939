// What `tidemark config` and the page of settings show: where each value comes from, what is masked, and what is ignored.

import { mkdtempDisposableSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { config } from '../../src/cli/config.ts'
import type { Environment } from '../../src/config/environment.ts'
import { misspeltWarnings } from '../../src/config/misspelt.ts'
import { readSettings } from '../../src/config/settings.ts'
import { environmentOfSource } from '../../src/config/sources-file.ts'
import { catalogueOf } from '../../src/streams/catalog.ts'
import {
  layerInWords,
  remarkOn,
  settingsOfStream,
  sourceInWords,
  unknownInWords,
} from '../../src/streams/settings.ts'
import { markupOf } from '../../src/web/html.ts'
import { settingsPage } from '../../src/web/pages/settings.ts'
import { readOnlyViewer } from '../../src/web/sessions.ts'
import type { StatusQueries } from '../../src/web/status-queries.ts'
import { statusQueriesWith } from '../support/status-queries.ts'
import { callCommand } from '../support/verbs.ts'

const read = (dotEnv: Environment, more: Environment = {}) => readSettings({ ...dotEnv, ...more }, dotEnv)()
const settingOf = (name: string, dotEnv: Environment, more: Environment = {}) => {
  const found = read(dotEnv, more).settings.find((one) => one.name === name)
  if (!found) throw new Error(`there is no ${name}`)
  return found
}

const pageWith = async (
  statusQueries: StatusQueries,
  more: Partial<Parameters<typeof settingsPage.body>[0]> = {},
): Promise<string> => {
  const shown = await settingsPage.body({
    ...{ statusQueries, viewer: readOnlyViewer, query: new URLSearchParams(), now: new Date() },
    ...more,
  } as Parameters<typeof settingsPage.body>[0])
  return markupOf('body' in shown ? shown.body : shown)
}

describe('settings', () => {
  afterEach(() => vi.unstubAllEnvs())

  it('say where each value comes from', () => {
    using directory = mkdtempDisposableSync(join(tmpdir(), 'tidemark-settings-'))
    const file = join(directory.path, 'size')
    writeFileSync(file, '7\n')
    vi.stubEnv('LOOKBACK', '5m')
    const dotEnv = { PAGE_SIZE_FILE: file, LOOKBACK: '1m', STREAMS: 'assignment', LOG_LEVEL: '' }
    const shown = (name: string) => {
      const setting = settingOf(name, dotEnv, { LOOKBACK: '5m', HTTP_PORT: '9' })
      return `${sourceInWords(setting)}: ${setting.value}`
    }
    expect(shown('PAGE_SIZE')).toBe(`file ${file}: 7`)
    expect(shown('LOOKBACK')).toBe('environment: 5m')
    expect(shown('STREAMS')).toBe('.env: assignment')
    expect(shown('HTTP_PORT')).toBe('the demo: 9')
    expect(shown('LOG_LEVEL')).toBe('default: info')
    expect(shown('SCHEDULE_ASSIGNMENT')).toBe('default: 30s')
  })

  it('of a source that has a name come from the file of sources, whatever the environment says of the first one', () => {
    vi.stubEnv('PAGE_SIZE', '500')
    vi.stubEnv('HTTP_PORT', '7')
    const given = environmentOfSource({ ...process.env, ACME_KEY: 'canary-of-settings' }, 'acme', {
      ...{ PAGE_SIZE: '500', SCHEDULE_ASSIGNMENT: '5s', API_KEY: 'env:ACME_KEY' },
    })
    const by = { by: 'ada', at: new Date() }
    const { source, settings, unknown } = readSettings(given, { PAGE_SIZ: '3' })(undefined, [
      { name: 'SCHEDULE_ASSIGNMENT', value: '2s', ...by },
      { name: 'HTTP_PORT', value: '2', ...by },
    ])
    const shown = (name: string) => {
      const found = settings.find((one) => one.name === name)
      return found && [found, ...found.beneath].map(layerInWords)
    }
    expect(source).toBe('acme')
    expect(shown('PAGE_SIZE')).toEqual(['500 (SOURCES_FILE)', '1000 (default)'])
    expect(shown('SCHEDULE_ASSIGNMENT')).toEqual(['2s (override)', '5s (SOURCES_FILE)', '30s (default)'])
    expect(shown('API_KEY')).toEqual(['•••••••• (SOURCES_FILE)'])
    expect(shown('HTTP_PORT')).toBeUndefined()
    // Those of the environment are not its own; an override that it cannot have can be removed.
    expect(unknown).toEqual([{ name: 'HTTP_PORT', source: 'override', meant: null }])
  })

  it('are those of the first source where others have streams of the same names', () => {
    const all = [...catalogueOf([]), ...catalogueOf([], undefined, 'acme')]
    const { settings } = readSettings({ SCHEDULE_ASSIGNMENT: '7s' }, {})(all)
    const of = (name: string) => settings.filter((one) => one.name === name).map(({ stream }) => stream)
    expect(of('SCHEDULE_ASSIGNMENT')).toEqual(['assignment'])
  })

  it('of a source are changed by forms that name it', async () => {
    const { acme, first } = Object.fromEntries(
      [
        ['acme', environmentOfSource({}, 'acme', { PAGE_SIZE: '5' })] as const,
        ['first', { PAGE_SIZE: '9' }] as const,
      ].map(([name, environment]) => [
        name,
        readSettings(environment, {})(undefined, [
          { name: 'PAGE_SIZE', value: '7', by: 'ada', at: new Date() },
        ]),
      ]),
    )
    const statusQueries = statusQueriesWith({
      sources: async () => ['', 'acme'].map((name) => ({ name })) as never,
      settings: async (source) =>
        (source === 'acme' ? acme : first) ?? { source: '', settings: [], unknown: [] },
    })
    const viewer = { ...readOnlyViewer, canAct: true, canAdminister: true, csrfToken: 'x' }
    const targetsIn = (page: string) =>
      new Set([...page.matchAll(/name="target" value="([^"]*PAGE_SIZE)"/g)].map(([, target]) => target))
    const page = await pageWith(statusQueries, { viewer, query: new URLSearchParams('source=acme') })
    expect(targetsIn(page)).toEqual(new Set(['acme.PAGE_SIZE']))
    expect(page).toContain('<bdi>5 (SOURCES_FILE)</bdi>')
    expect(targetsIn(await pageWith(statusQueries, { viewer }))).toEqual(new Set(['PAGE_SIZE']))
    const none = await pageWith(statusQueries, { viewer, query: new URLSearchParams('source=acm') })
    expect(none).toContain('These are the sources')
    expect(targetsIn(none)).toEqual(new Set())
  })

  it.each([
    ['API_KEY', 'canary-of-settings', '••••••••'],
    ['DATABASE_URL', 'postgres://u:canary-of-settings@db:5432/x?a=b', 'postgres://••••••••@db:5432/x'],
    ['DATABASE_URL', 'postgres://u:canary-of-settings@one,two/x', 'postgres://••••••••@one,two/x'],
    ['DATABASE_URL', 'postgres://u:1/canary-of-settings@db/x', '••••••••'],
    ['DATABASE_URL', 'postgres://u:1#canary-of-settings@db/x', '••••••••'],
    ['DATABASE_URL', 'postgres://u:1?canary-of-settings@db/x', '••••••••'],
    ['DATABASE_URL', 'canary-of-settings', '••••••••'],
    ['REDIS_URL', 'redis://queue:6379/2', 'redis://queue:6379/2'],
    [
      'REDIS_URL',
      'rediss+sentinel://u:canary-of-settings@one,two:26379/mymaster/2?sentinelPassword=canary-of-settings',
      'rediss+sentinel://••••••••@one,two:26379/mymaster/2',
    ],
    ['HTTPS_PROXY', 'canary:canary-of-settings@proxy:3128', '••••••••'],
    ['ALERT_WEBHOOK_URL', 'https://hooks.example/canary-of-settings', '••••••••'],
    ['CONTRACT', 'https://docs.example/v1.json?key=canary-of-settings', 'https://docs.example/v1.json?…'],
    [
      'AUTH_URL',
      'https://user:canary-of-settings@identity.example',
      'https://user:[secret]@identity.example',
    ],
  ])('show no secret of %s=%s (P9)', (name, value, shown) => {
    expect(settingOf(name, { [name]: value }).value).toBe(shown)
    expect(JSON.stringify(read({ [name]: value }))).not.toContain('canary-of-settings')
  })

  it('name what is wrong, what is ignored, and what is none', () => {
    const dotEnv = {
      PAGE_SIZE: '0',
      WORKER_PASSWORD: 'canary-of-worker',
      DATABSE_URL: 'canary-of-settings',
      POSTGRES_PASSWORD: 'of another program',
      SCHEDULE_ASIGNMENT: '5s',
    }
    expect(remarkOn(settingOf('PAGE_SIZE', dotEnv))).toBe('PAGE_SIZE must be a whole number from 1 to 100000')
    expect(remarkOn(settingOf('WORKER_PASSWORD', dotEnv))).toBe('is ignored: OWNER_ROLE is not set')
    expect(remarkOn(settingOf('WORKER_PASSWORD', { ...dotEnv, OWNER_ROLE: 'owner' }))).toBeNull()
    expect(read(dotEnv).unknown.map(unknownInWords)).toEqual([
      'DATABSE_URL (.env) is no setting of Tidemark: did you mean DATABASE_URL?',
      'SCHEDULE_ASIGNMENT (.env) is no setting of Tidemark: did you mean SCHEDULE_ASSIGNMENT?',
      'POSTGRES_PASSWORD (.env) is no setting of Tidemark',
    ])
  })

  it('is a name that a file of sources or of alerts asks for', () => {
    using directory = mkdtempDisposableSync(join(tmpdir(), 'tidemark-'))
    const file = join(directory.path, 'sources.yaml')
    writeFileSync(file, 'sources:\n  acme:\n    api_key: env:KEY_OF_ACME\n')
    const dotEnv = { SOURCES_FILE: file, KEY_OF_ACME: 'canary', KEY_OF_NOBODY: 'canary' }
    expect(read(dotEnv).unknown.map(({ name }) => name)).toEqual(['KEY_OF_NOBODY'])
  })

  it.each([
    ['DATABSE_URL', 'DATABASE_URL'],
    ['DATABASE_URI', 'DATABASE_URL'],
    ['ASSIGNMENT_BASEURL', 'ASSIGNMENT_BASE_URL'],
    ['API_KYE', 'API_KEY'],
    ['API_KEYS_FILE', 'API_KEY_FILE'],
    ['LOGLEVEL', 'LOG_LEVEL'],
    ['page_size', 'PAGE_SIZE'],
    ['TIDEMARK_LOG_LEVEL', 'LOG_LEVEL'],
  ])('warn of %s', (name, meant) => {
    expect(misspeltWarnings({ [name]: 'x' })).toEqual([
      `${name} is set, and is no setting of Tidemark: did you mean ${meant}?`,
    ])
    expect(misspeltWarnings({ [name]: ' ' })).toEqual([])
    const both = { [name]: 'x', [meant]: 'y' }
    expect(misspeltWarnings(both, {})).toEqual([])
    expect(misspeltWarnings(both, { [name]: 'x' })).toHaveLength(1)
  })

  it.each([
    ...['PATH', 'HOME', 'SMTP_HOST', 'SMTP_PORT', 'REDIS_PORT', 'HISTSIZE', 'HISTFILE', 'DATABASE_NAME'],
    ...['TEST_DATABASE_URL', 'https_proxy', 'API_KEY_FILE', 'EXTRA_CA_FILE', 'PAGER', 'LOGNAME', 'TZ'],
  ])('leave %s alone', (name) => {
    expect(misspeltWarnings({ [name]: 'x' })).toEqual([])
  })

  it('are printed by `tidemark config`, which ends with 2 when they cannot be used', async () => {
    const DATABASE_URL = 'postgres://nobody:canary-of-settings@127.0.0.1:1/none?sslmode=disable'
    const environment = { API_KEY: 'canary-of-settings', PAGE_SIZE: '0', LOGLEVEL: 'debug', DATABASE_URL }
    const shown = await callCommand(config, ['--json'], environment)
    expect(shown.code).toBe(2)
    expect(shown.stdout).not.toContain('canary-of-settings')
    const { settings, unknown, problems, overrides_unknown_because: because } = JSON.parse(shown.stdout)
    expect(because).toContain('127.0.0.1:1')
    expect(settings.length).toBeGreaterThan(60)
    expect(settings).toContainEqual(
      expect.objectContaining({ name: 'LOOKBACK', value: null, default: '10m', source: 'default' }),
    )
    expect(settings).toContainEqual(expect.objectContaining({ name: 'API_KEY', secret: true }))
    expect(unknown).toMatchObject([{ name: 'LOGLEVEL', did_you_mean: 'LOG_LEVEL' }])
    expect(problems).toContain('PAGE_SIZE must be a whole number from 1 to 100000')
    const text = await callCommand(config, ['--set'], environment)
    expect(text.stdout).toMatch(/^API_KEY +\S.* \*{8}$/m)
    expect(text.stdout).not.toContain('LOOKBACK')
    expect(text.stdout).toContain('What was changed while workers run is not shown: ')
  })

  it('of a stream are its own and those of all, on a page without markup of others', async () => {
    const settings = read({ SCHEDULE_ASSIGNMENT: '<b>5s', NONE_OF_THEM: 'x' })
    const names = settingsOfStream(settings, { name: 'assignment', kind: 'changes' }).map(({ name }) => name)
    expect(names).toEqual(expect.arrayContaining(['SCHEDULE_ASSIGNMENT', 'VERSION_ASSIGNMENT', 'LOOKBACK']))
    expect(names).not.toContain('SCHEDULE_ASSIGNMENT_NOTE')
    const statusQueries = statusQueriesWith({ settings: async () => settings })
    const page = await pageWith(statusQueries)
    expect(page).toContain('NONE_OF_THEM (.env) is no setting of Tidemark')
    expect(page).toContain('&lt;b&gt;5s')
    expect(page).toContain('DATABASE_URL')
    expect(page).not.toContain('<b>5s')
  })
})
