import Basics
import ObjectStorage
import Testing

extension Promise {
    /// Names that text formats, URLs and file systems like to change.
    static let oddNames: [ByteString] = [
        "with space", " leading space", "trailing space ", "plus+plus", "per%cent", "per%20cent", "a&b=c;d", "<angle>",
        "quote\"'", "back\\slash", "question?mark#hash", "stars*[x]{y}|^~", "$(money)`!", "at@colon:,comma",
        "\u{fc}n\u{ef}code", "e\u{301} and not \u{e9}", "日本語/ファイル", "emoji \u{1F642}", "...", "-dash", ".hidden",
        "a//b", "/leading slash", "a/./b", "a/../b",
    ]

    /// A name of `count` bytes, but no more than 863: with the prefix in front, every store that keeps 900 takes it.
    static func longName(_ count: Int) -> ByteString {
        let text = Array(repeating: String(repeating: "n", count: 95), count: 9).joined(separator: "/")
        return ByteString(text.utf8.prefix(min(count, 863)))
    }

    static let names: [Promise] = [
        Promise("Keys are kept byte by byte") { bucket in
            for (number, name) in bucket.oddNames.enumerated() {
                let bytes = Array("content \(number)".utf8)
                var stored = name
                switch bucket.differences.keys[name] {
                case .refused(let kind):
                    #expect(await failure { try await bucket.put(name, bytes) } == kind, "\(name)")
                    continue
                case .becomes(let other): stored = other
                case nil: break
                }
                #expect(await failure { try await bucket.put(name, bytes) } == nil, "\(name)")
                #expect((try? await bucket.content(name)) == bytes, "\(name)")
                #expect((try? await bucket.head(name))?.version.size == Int64(bytes.count), "\(name)")
                let listed = try await bucket.list(stored)
                #expect(listed.objects.contains(stored), "\(name)")
                #expect(await failure { try await bucket.store.delete(bucket.key(name), ifMatch: nil) } == nil)
                #expect(await failure { try await bucket.head(name) } == .notFound, "\(name)")
            }
        },
        Promise("Many keys are deleted at once, whatever they are") { bucket in
            let names = bucket.oddNames.filter { bucket.differences.keys[$0] == nil }
            for name in names { try await bucket.put(name) }
            try await bucket.put("stays")
            #expect(try await bucket.list().objects.count == names.count + 1)
            let failures = try await bucket.store.deleteMany(names.map { bucket.key($0) } + [bucket.key("missing")])
            #expect(failures.isEmpty)
            let left = try await bucket.list().objects
            #expect(left == ["stays"])
        },
        Promise("A marker is an object besides what is below it") { bucket in
            let metadata = ObjectMetadata(contentType: "application/x-directory", user: ["mode": "16877"])
            try await bucket.put("dir/", [], metadata: metadata)
            try await bucket.put("dir/file", [1])
            let info = try await bucket.head("dir/")
            #expect(info.version.size == 0)
            #expect((info.metadata == metadata) == bucket.differences.keepsHeadersOfMarkers)
            #expect(await failure { try await bucket.head("dir") } == .notFound)
            #expect(try await bucket.list().objects == ["dir/", "dir/file"])
            #expect(try await bucket.list("dir/", delimiter: "/").objects == ["dir/", "dir/file"])
            #expect(try await bucket.list("", delimiter: "/").prefixes == ["dir/"])
            let copy = await failure {
                try await bucket.store.copy(CopyRequest(CopySource(bucket.key("dir/")), to: bucket.key("other/")))
            }
            #expect(copy == (bucket.differences.copiesMarkers ? nil : .notFound))
            try await bucket.store.delete(bucket.key("dir/"), ifMatch: nil)
            #expect(try await bucket.content("dir/file") == [1])
        },
        Promise("A file and what is below its name live side by side") { bucket in
            try await bucket.put("x", [1])
            try await bucket.put("x/y", [2])
            #expect(try await bucket.content("x") == [1])
            #expect(try await bucket.content("x/y") == [2])
            let listed = try await bucket.list("", delimiter: "/")
            #expect(listed.objects == ["x"])
            #expect(listed.prefixes == ["x/"])
        },
    ]
}
