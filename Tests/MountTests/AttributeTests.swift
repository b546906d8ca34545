import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// Headers and properties of objects, set and shown by setfattr(1) and getfattr(1), and looked at past the mount.
    @Suite struct ObjectAttributes {
        private static let providers: [Provider] = [.s3, .oss, .cos]

        /// Shell functions that take an attribute's last name.
        private static let functions = """
            get() { getfattr --only-values -n user.pailfs.$1 "$2"; }
            set() { setfattr -n user.pailfs.$1 -v "$2" "$3"; }
            remove() { setfattr -x user.pailfs.$1 "$2"; }
            refused() { if "${@:2}" 2>refusal; then echo "not refused: $*" >&2; exit 1; fi; grep -q "$1" refusal; rm refusal; }

            """

        private func sh(_ script: String, in world: World) async throws {
            try await world.sh(Self.functions + script)
        }

        /// What `pailfs stat` shows, which asks the store.
        private func stat(_ name: String, in world: World) async throws -> [Substring] {
            let outcome = try await world.pailfs(
                ["stat", "\(world.bucket.url)/\(name)", "-o", world.options([])])
            guard outcome.succeeded else { throw ChildFailed(command: "pailfs stat \(name)", outcome: outcome) }
            return outcome.output.split(separator: "\n")
        }

        @Test(.rule("create.type"), .timeLimit(.minutes(5)), arguments: Provider.allCases)
        func filesHaveTheTypesOfTheirNames(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await world.mount(["part-size=5MiB"])
                try await sh(
                    """
                    mkdir site
                    printf '<p>' >site/index.html
                    printf x >download.part; mv download.part photo.jpg
                    head -c 12000000 /dev/zero >big.png
                    printf x >plain
                    cp photo.jpg copy.css
                    """, in: world)
                let types = [
                    "site/index.html": "text/html", "big.png": "image/png", "copy.css": "text/css",
                    "photo.jpg": provider == .kodo ? nil : "image/jpeg",
                ]
                for (name, type) in types {
                    guard let type else { continue }
                    let lines = try await stat(name, in: world)
                    #expect(lines.contains("content-type: \(type)"), "\(name): \(lines)")
                }
                let plain = try await stat("plain", in: world).first { $0.hasPrefix("content-type:") }
                #expect(plain?.hasSuffix("octet-stream") ?? true || provider == .kodo, "\(String(describing: plain))")
            }
        }

        /// In the store's own header, where the SDKs find it and put it.
        @Test(.rule("xattr.metadata"), .timeLimit(.minutes(5)), arguments: Provider.allCases)
        func metadataIsThatOfOtherPrograms(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await world.outside("describe", "theirs", "color", "dark red")
                try await world.mount()
                try await world.sh(
                    """
                    test "$(getfattr --only-values -n user.meta.color theirs)" = 'dark red'
                    printf x >ours
                    setfattr -n user.meta.Shade-1 -v 'light blue' ours
                    setfattr -n user.other -v kept ours
                    printf more >>ours; mv ours moved; chmod 600 moved; cp --preserve=all moved copy
                    test "$(getfattr -d --absolute-names copy | grep '^user' | sort | tr '\n' ' ')" = \
                        'user.meta.shade-1="light blue" user.other="kept" '
                    setfattr -n user.meta.color -v green theirs
                    test "$(cat theirs)" = described
                    """)
                for name in ["moved", "copy"] {
                    #expect(try await world.outside("metadata", name, "shade-1") == "light blue", "\(name)")
                }
                #expect(try await world.outside("metadata", "theirs", "color") == "green")
                try await sh(
                    """
                    refused 'Operation not permitted' setfattr -n user.meta.mtime -v 1 moved
                    refused 'Invalid argument' setfattr -n 'user.meta.a b' -v 1 moved
                    refused 'Invalid argument' setfattr -n user.meta.a -v "$(printf 'a\nb')" moved
                    refused 'No such attribute' getfattr -n user.meta.mtime moved
                    setfattr -x user.meta.shade-1 moved
                    refused 'No such attribute' getfattr -n user.meta.shade-1 moved
                    """, in: world)
                // Kodo takes nothing away.
                #expect(
                    try await world.outside("metadata", "moved", "shade-1") == (provider == .kodo ? "%" : ""))
                #expect(try await world.outside("metadata", "moved", "mtime") != "")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aDownloadsRenameCostsACopyAndADelete() async throws {
            try await withMount { world, store in
                try await world.sh("printf x >a.part")
                let requests = try await store.requests {
                    try await world.python("import os; os.rename('a.part', 'a.jpg')")
                }
                #expect(requests.areWithin(["CopyObject": 1, "DeleteObject": 1, "ListObjectsV2": 1]), "\(requests)")
                #expect(try await stat("a.jpg", in: world).contains("content-type: image/jpeg"))
                #expect(try await world.outside("keys") == "a.jpg\n")
            }
        }

        @Test(.rule("xattr.header"), .timeLimit(.minutes(5)), arguments: Provider.allCases)
        func headersAreSetShownAndKept(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await world.mount()
                try await sh(
                    """
                    printf x >page.html
                    chmod 640 page.html
                    set cache-control 'public, max-age=60' page.html
                    set content-disposition 'attachment; filename="p.html"' page.html
                    set content-language de page.html
                    set content-type 'text/html; charset=utf-8' page.html
                    test "$(get cache-control page.html)" = 'public, max-age=60'
                    test "$(getfattr -d page.html | grep -c pailfs)" = 4
                    refused 'Invalid argument' set expires "$(printf 'a\\nb')" page.html
                    refused 'Operation not permitted' set etag x page.html
                    refused 'No such attribute' remove expires page.html
                    printf more >>page.html
                    mv page.html moved.html
                    cp --preserve=all moved.html copy.html
                    test "$(get content-language copy.html)" = de
                    chmod 600 moved.html
                    """, in: world)
                for name in ["moved.html", "copy.html"] {
                    let lines = try await stat(name, in: world)
                    #expect(lines.contains("cache-control: public, max-age=60"), "\(lines)")
                    #expect(lines.contains("content-disposition: attachment; filename=\"p.html\""), "\(lines)")
                    #expect(lines.contains("content-language: de"), "\(lines)")
                    #expect(lines.contains("content-type: text/html; charset=utf-8"), "\(lines)")
                }
                try await sh(
                    """
                    remove content-language moved.html
                    refused 'No such attribute' get content-language moved.html
                    test "$(cat moved.html)" = xmore
                    """, in: world)
                // Another machine knows nothing of it.
                try await world.unmount()
                try await world.mount(["attrs=exact"], cache: "another")
                try await sh(
                    """
                    test "$(get content-type moved.html)" = 'text/html; charset=utf-8'
                    test "$(get cache-control moved.html)" = 'public, max-age=60'
                    test "$(stat -c %a moved.html)" = 600
                    """, in: world)
            }
        }

        @Test(.rule("xattr.property", "xattr.copied"), .timeLimit(.minutes(5)), arguments: providers)
        func propertiesAreSetAndShown(_ provider: Provider) async throws {
            let (cold, archive) =
                switch provider {
                case .oss: ("IA", "Archive")
                case .cos: ("STANDARD_IA", "ARCHIVE")
                default: ("STANDARD_IA", "GLACIER")
                }
            try await provider.withWorld { world in
                try await world.mount()
                try await sh(
                    """
                    printf x >a
                    set cache-control no-store a
                    set acl public-read a
                    get acl a | grep -q -i read
                    refused 'Invalid argument' set acl 'two words' a
                    set storage-class \(cold) a
                    test "$(get storage-class a)" = \(cold)
                    refused 'Invalid argument' set storage-class NoSuchClass a
                    get lasterror a | grep -q NoSuchClass
                    refused 'No such attribute' get restore a
                    test "$(cat a)" = x
                    test "$(get cache-control a)" = no-store
                    mv a b
                    test "$(get storage-class b)" = \(cold)
                    # Bytes that are not stored yet are what the class is of.
                    exec 3>c; printf y >&3
                    set storage-class \(archive) c
                    exec 3>&-
                    refused 'Invalid argument' set restore soon c
                    set restore 2 c
                    get restore c
                    test -z "$(getfattr -d c)"
                    """, in: world)
                let lines = try await stat("c", in: world)
                #expect(lines.contains("storage-class: \(archive)"), "\(lines)")
                #expect(lines.contains { $0.hasPrefix("restore: ") }, "\(lines)")
                #expect(try await stat("b", in: world).contains("storage-class: \(cold)"))
            }
        }

        @Test(.rule("xattr.property"), .timeLimit(.minutes(5)))
        func aStoreWithoutAPropertySaysSo() async throws {
            try await Provider.cssp.withWorld { world in
                try await world.mount()
                try await sh(
                    """
                    printf x >a
                    for one in 'acl private' 'storage-class IA' 'restore 1'; do
                        refused 'not supported' set ${one% *} ${one#* } a
                    done
                    get lasterror a | grep -q 'this store does not support archived objects'
                    """, in: world)
            }
        }
    }
}
