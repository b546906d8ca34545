import Basics
import ObjectStorage
import Testing

extension Promise {
    private static let tree: [ByteString] = [
        "a", "a b", "b/1", "b/2", "b/c/3", "b/c/4", "b0", "c", "d/e/f/g", "z/1", "z/2", "z/3",
    ]

    private static func plant(_ names: [ByteString], in bucket: Bucket) async throws {
        for name in names { try await bucket.put(name, Array(name.bytes)) }
    }

    static let listings: [Promise] = [
        Promise("A listing tells of each object what a head tells") { bucket in
            let answer = try await bucket.put("object", [1, 2, 3])
            let info = try await bucket.head("object")
            let listed = try #require(try await bucket.list().entries.first)
            #expect(listed.key == bucket.key("object"))
            #expect(listed.version.etag == answer.etag)
            #expect(listed.version.size == 3)
            #expect(listed.version.modified.seconds == info.version.modified.seconds)
        },
        Promise("An empty listing is no error") { bucket in
            let listed = try await bucket.list("nothing/", delimiter: "/")
            #expect(listed.objects.isEmpty && listed.prefixes.isEmpty && listed.pages == 1)
        },
        Promise("A flat listing has every key in byte order") { bucket in
            try await plant(tree.reversed(), in: bucket)
            #expect(try await bucket.list().objects == tree)
            #expect(try await bucket.list("b").objects == ["b/1", "b/2", "b/c/3", "b/c/4", "b0"])
            #expect(try await bucket.list("b/c/").objects == ["b/c/3", "b/c/4"])
        },
        Promise("A delimiter rolls up what is below it") { bucket in
            try await plant(tree, in: bucket)
            let top = try await bucket.list("", delimiter: "/")
            #expect(top.objects == ["a", "a b", "b0", "c"])
            #expect(top.prefixes == ["b/", "d/", "z/"])
            let below = try await bucket.list("b/", delimiter: "/")
            #expect(below.objects == ["b/1", "b/2"])
            #expect(below.prefixes == ["b/c/"])
            let partial = try await bucket.list("b", delimiter: "/")
            #expect(partial.objects == ["b0"])
            #expect(partial.prefixes == ["b/"])
            #expect(try await bucket.list("d/", delimiter: "/").prefixes == ["d/e/"])
        },
        Promise("Pages of any size make the whole listing") { bucket in
            try await plant(tree, in: bucket)
            for limit in [1, 2, 5] {
                let flat = try await bucket.list(limit: limit)
                #expect(flat.objects == tree, "\(limit) a page")
                #expect(flat.pages >= tree.count / limit)
                let top = try await bucket.list("", delimiter: "/", limit: limit)
                #expect(top.objects == ["a", "a b", "b0", "c"], "\(limit) a page")
                #expect(top.prefixes == ["b/", "d/", "z/"], "\(limit) a page")
            }
        },
        Promise("A listing starts after the key given") { bucket in
            try await plant(tree, in: bucket)
            #expect(try await bucket.list(startAfter: "b/2").objects == Array(tree.dropFirst(4)))
            #expect(try await bucket.list(startAfter: "b/15").objects == Array(tree.dropFirst(3)))
            #expect(try await bucket.list(startAfter: "zz").objects.isEmpty)
            #expect(try await bucket.list("b/", startAfter: "b/2", limit: 1).objects == ["b/c/3", "b/c/4"])
            let top = try await bucket.list("", delimiter: "/", startAfter: "b0")
            #expect(top.objects == ["c"])
            #expect(top.prefixes == ["d/", "z/"])
        },
        Promise("A listing after a common prefix leaves it out") { bucket in
            try await plant(tree, in: bucket)
            let top = try await bucket.list("", delimiter: "/", startAfter: "b/")
            #expect(top.objects == ["b0", "c"])
            #expect(top.prefixes == ["d/", "z/"])
        },
        Promise("Order is by bytes and not by letters") { bucket in
            let names: [ByteString] = [
                "A", "Z", "a", "a!", "a-b", "a.b", "a/b", "a0", "a_b", "aa", "\u{e9}", "\u{ff21}", "\u{10000}",
            ]
            try await plant(names.reversed(), in: bucket)
            for limit in [nil, 3] {
                let listed = try await bucket.list(limit: limit).objects
                #expect(listed.sorted() == names)
                #expect((listed == names) == bucket.differences.listsInByteOrder)
            }
        },
    ]
}
