// What the compose file gives to whom: nobody works as the superuser but what prepares Postgres, and nobody gets a password that is not its own.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'

type Service = {
  readonly environment?: Readonly<Record<string, string>>
  readonly command?: readonly string[]
  readonly depends_on?: Readonly<Record<string, unknown>>
}
const file = new URL('../../docker-compose.yml', import.meta.url)
const { services }: { services: Readonly<Record<string, Service>> } = parse(readFileSync(file, 'utf8'))
const environmentOf = (name: string) => services[name]?.environment ?? {}

describe('the compose file', () => {
  it('lets the worker connect as a role of its own, after what makes that role', () => {
    const { DATABASE_URL: url = '', REDIS_URL: queue = '' } = environmentOf('worker')
    const { POSTGRES_USER: superuser } = environmentOf('postgres')
    const { WORKER_ROLE: role, OWNER_ROLE: owner } = environmentOf('migrate')
    expect(url).toMatch(new RegExp(`^postgres://${role}:`))
    expect(new Set([superuser, role, owner]).size).toBe(3)
    expect(queue).toMatch(/^redis:\/\/:\$\{REDIS_PASSWORD/)
    expect(services.worker?.depends_on).toMatchObject({
      migrate: { condition: 'service_completed_successfully' },
    })
  })

  it('gives the worker none of the passwords in .env but those in its URLs', () => {
    const text = readFileSync(file, 'utf8')
    const passwords = new Set([...text.matchAll(/\$\{(\w+_PASSWORD)/g)].map(([, name = '']) => name))
    expect(passwords.size).toBeGreaterThan(3)
    for (const name of passwords) expect([name, environmentOf('worker')[name]]).toEqual([name, ''])
  })

  it('shows no password to whoever sees the processes (P9)', () => {
    for (const [name, { command = [] }] of Object.entries(services))
      for (const word of command)
        expect([name, word.split('<<')[0]]).toEqual([name, expect.not.stringMatching(/PASS|AUTH/)])
  })
})
