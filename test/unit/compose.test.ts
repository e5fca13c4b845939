// What the compose file gives to whom: nobody works as the superuser but what prepares Postgres, and nobody gets a secret that is not its own.

import { execFileSync } from 'node:child_process'
import { mkdtempDisposableSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'

type Service = {
  readonly environment?: Readonly<Record<string, string>>
  readonly secrets?: readonly string[]
  readonly command?: readonly string[]
  readonly depends_on?: Readonly<Record<string, unknown>>
}
type Compose = {
  readonly services: Readonly<Record<string, Service>>
  readonly secrets: Readonly<Record<string, unknown>>
}
const pathOf = (name: string) => fileURLToPath(new URL(`../../${name}`, import.meta.url))
const { services, secrets }: Compose = parse(readFileSync(pathOf('docker-compose.yml'), 'utf8'), {
  merge: true,
})
const environmentOf = (name: string) => services[name]?.environment ?? {}

describe('the compose file', () => {
  it('lets the worker connect as a role of its own, after what makes that role', () => {
    const { DATABASE_URL: url = '' } = environmentOf('worker')
    const { POSTGRES_USER: superuser } = environmentOf('postgres')
    const { WORKER_ROLE: role, OWNER_ROLE: owner, BI_ROLE: bi } = environmentOf('migrate')
    expect(url).toMatch(new RegExp(`^postgres://${role}@`))
    expect(new Set([superuser, role, owner, bi]).size).toBe(4)
    expect(services.worker?.depends_on).toMatchObject({
      migrate: { condition: 'service_completed_successfully' },
    })
  })

  it('gives each service the secrets that it reads, by their files, and no other (P9)', () => {
    const given = Object.values(services).flatMap((service) => service.secrets ?? [])
    expect(new Set(given)).toEqual(new Set(Object.keys(secrets)))
    for (const [name, { environment = {}, command = [], secrets: own = [] }] of Object.entries(services)) {
      const texts = [...Object.values(environment), ...command]
      const read = texts.flatMap((text) => /\/run\/secrets\/(\w+)/.exec(text)?.[1] ?? [])
      expect([name, read.toSorted()]).toEqual([name, own.toSorted()])
      for (const text of texts)
        expect([name, text]).toEqual([name, expect.not.stringMatching(/\$\{\w*(PASSWORD|KEY|TOKEN)/)])
    }
  })

  it('hides from the worker what an earlier .env holds', () => {
    for (const name of Object.keys(secrets)) expect(environmentOf('worker')[name.toUpperCase()]).toBe('')
  })
})

describe.skipIf(process.platform === 'win32')('make-secrets.sh', () => {
  it('makes a file for each secret, takes over what .env has, and keeps what is there', () => {
    using directory = mkdtempDisposableSync(join(tmpdir(), 'tidemark-secrets-'))
    const cwd = directory.path
    const make = () => execFileSync('sh', [pathOf('deploy/compose/make-secrets.sh')], { cwd, stdio: 'pipe' })
    expect(make).toThrow('secrets/api_key is missing, and .env has no API_KEY')
    writeFileSync(join(cwd, '.env'), `WORKER_PASSWORD='not used: it is there'\nAPI_KEY='a $key #1'\n`)
    const secretOf = (name: string) => readFileSync(join(cwd, 'secrets', name), 'utf8')
    const before = secretOf('worker_password')
    expect(make).not.toThrow()
    expect(readdirSync(join(cwd, 'secrets')).toSorted()).toEqual(Object.keys(secrets).toSorted())
    expect([secretOf('api_key'), secretOf('worker_password')]).toEqual(['a $key #1', before])
    expect(before).toMatch(/^[0-9a-f]{48}$/)
    expect(statSync(join(cwd, 'secrets')).mode & 0o777).toBe(0o700)
    // A container keeps the file that was there at its start: a new value has to be written into it.
    expect(statSync(join(cwd, 'secrets', 'admin_token')).mode & 0o777).toBe(0o644)
  })
})
