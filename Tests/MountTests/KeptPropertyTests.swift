import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// What an object has beside its bytes and headers outlives changes of it.
    @Suite struct KeptProperties {
        private func of(_ name: String, _ world: World) async throws -> [String] {
            var found: [String] = []
            for command in ["tag", "acl"] {
                let outcome = try await world.pailfs([command, "get", "\(world.mountpoint)/\(name)"])
                guard outcome.succeeded else { throw ChildFailed(command: command, outcome: outcome) }
                found.append(outcome.output)
            }
            return found + [try await world.sh("getfattr --only-values -n user.pailfs.storage-class \(name)")]
        }

        private func set(_ name: String, _ storageClass: String, _ world: World) async throws {
            let path = "\(world.mountpoint)/\(name)"
            for command in [
                ["class", path, storageClass], ["tag", "set", path, "one=1", "two=a b"],
                ["acl", "set", path, "public-read"],
            ] {
                let outcome = try await world.pailfs(command)
                guard outcome.succeeded else { throw ChildFailed(command: "\(command)", outcome: outcome) }
            }
        }

        private static let acts: [(name: String, script: String, result: String)] = [
            ("overwrite", "printf changed >f", "f"), ("append", "printf more >>f", "f"),
            ("chmod", "chmod 600 f", "f"), ("rename", "mv f g", "g"), ("rename with a type", "mv f f.png", "f.png"),
            ("large", "head -c 12000000 /dev/zero >f", "f"), ("cut", "truncate -s 1 f", "f"),
            ("attribute", "setfattr -n user.x -v y f", "f"), ("directory", "mv d e", "e/f"),
        ]

        @Test(
            .rule("write.keep"), .timeLimit(.minutes(10)), arguments: [Provider.s3, .oss, .cos], ["remote", "local"])
        func tagsClassAndAccessStay(_ provider: Provider, durable: String) async throws {
            let storageClass = provider == .oss ? "IA" : "STANDARD_IA"
            try await provider.withPailstore { world, store in
                let options =
                    ["durable=\(durable)", "part-size=5MiB"] + (provider == .s3 ? ["acl=keep"] : [])
                for (number, act) in Self.acts.enumerated() {
                    let directory = act.name == "directory"
                    try await world.mount(options, cache: "\(number)a")
                    try await world.sh(
                        "rm -rf *; mkdir d; printf content >d/f; printf content >f")
                    #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
                    try await set(directory ? "d/f" : "f", storageClass, world)
                    try await world.unmount()
                    try await world.mount(options, cache: "\(number)b")
                    let before = try await of(directory ? "d/f" : "f", world)
                    #expect(before[0] == "one=1\ntwo=a b\n" && before[2] == storageClass, "\(before)")
                    try await world.sh(act.script)
                    #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
                    #expect(try await of(act.result, world) == before, "\(act.name)")
                    // Known from the mount's own commit now.
                    if !directory {
                        try await world.sh("printf again >>\(act.result)")
                        #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
                        #expect(try await of(act.result, world) == before, "\(act.name), again")
                    }
                    try await world.unmount()
                }
            }
        }

        @Test(.rule("write.keep"), .timeLimit(.minutes(5)))
        func theyStayWhenTheWorkerDies() async throws {
            try await Provider.s3.withPailstore { world, store in
                let options = ["durable=local", "acl=keep"]
                try await world.mount(options)
                try await world.sh("printf content >f; printf content >g")
                #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
                for name in ["f", "g"] { try await set(name, "STANDARD_IA", world) }
                try await world.unmount()
                try await world.mount(options, cache: "another")
                let before = try await of("f", world)
                try await store.setFaults("op=PutObject,kind=status:503", "op=CopyObject,count=1,kind=hang")
                try await world.sh("printf changed >f")
                let rename = try world.start("mv g h")
                _ = await poll(for: .seconds(30)) {
                    store.requests.contains { $0.operation == "CopyObject" && $0.status == 0 } ? true : nil
                }
                try await world.killWorker()
                try await store.setFaults()
                _ = await rename.wait(deadline: .seconds(60))
                #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
                try await world.sh("test $(cat f) = changed; test ! -e g")
                #expect(try await of("f", world) == before)
                #expect(try await of("h", world) == before)
                try await world.unmount()
            }
        }

        @Test(.rule("write.keep"), .timeLimit(.minutes(5)))
        func whatHasNoTagsCostsNoRequestMore() async throws {
            try await Provider.s3.withPailstore { world, store in
                try await world.mount([])
                try await world.sh("printf content >f")
                let cost = try await store.requests { try await world.sh("printf more >>f; chmod 600 f; mv f g") }
                #expect(cost.counts["GetObjectTagging", default: 0] == 0, "\(cost)")
                #expect(cost.counts["GetObjectAcl", default: 0] == 0, "\(cost)")
                try await world.unmount()
            }
        }
    }
}
