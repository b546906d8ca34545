import Basics
import ObjectStorage
import Testing

extension Promise {
    static let copies: [Promise] = [
        Promise("A copy has the source's bytes and headers") { bucket in
            try await bucket.put("from", [1, 2, 3], metadata: bucket.everyHeader)
            let answer = try await bucket.store.copy(
                CopyRequest(CopySource(bucket.key("from")), to: bucket.key("to")))
            let got = try await bucket.get("to")
            #expect(got.bytes == [1, 2, 3])
            #expect(got.answer.info.metadata == bucket.everyHeader)
            #expect(got.answer.info.version.etag == answer.etag)
            #expect(try await bucket.content("from") == [1, 2, 3])
        },
        Promise("A copy takes other headers") { bucket in
            try await bucket.put("from", [1, 2, 3], metadata: bucket.everyHeader)
            let metadata = ObjectMetadata(contentType: "text/html", user: ["other": "1"])
            _ = try await bucket.store.copy(
                CopyRequest(CopySource(bucket.key("from")), to: bucket.key("to"), metadata: metadata))
            let got = try await bucket.get("to")
            #expect(got.bytes == [1, 2, 3])
            #expect(got.answer.info.metadata == metadata)
        },
        Promise("A copy is of the version meant, or does not happen") { bucket in
            let old = try await bucket.put("from", [1]).etag
            let etag = try await bucket.put("from", [2]).etag
            let source = CopySource(bucket.key("from"), ifMatch: old)
            #expect(
                await failure { try await bucket.store.copy(CopyRequest(source, to: bucket.key("to"))) }
                    == .preconditionFailed)
            #expect(await failure { try await bucket.head("to") } == .notFound)
            _ = try await bucket.store.copy(
                CopyRequest(CopySource(bucket.key("from"), ifMatch: etag), to: bucket.key("to")))
            #expect(try await bucket.content("to") == [2])
        },
        Promise("A copy of nothing is not found") { bucket in
            let missing = CopySource(bucket.key("missing"))
            #expect(
                await failure { try await bucket.store.copy(CopyRequest(missing, to: bucket.key("to"))) } == .notFound)
        },
        Promise("A copy happens only when its condition holds at the destination") { bucket in
            try await bucket.put("from", [1])
            let etag = try await bucket.put("to", [2]).etag
            let source = CopySource(bucket.key("from"))
            let refused = await failure {
                try await bucket.store.copy(CopyRequest(source, to: bucket.key("to"), condition: .absent))
            }
            guard bucket.capabilities.copyCondition else {
                #expect(refused == .notSupported)
                return
            }
            #expect(refused == .preconditionFailed)
            #expect(try await bucket.content("to") == [2])
            let overwrite = CopyRequest(source, to: bucket.key("to"), condition: .match(etag))
            if bucket.capabilities.putIfMatch {
                _ = try await bucket.store.copy(overwrite)
                #expect(try await bucket.content("to") == [1])
            } else {
                #expect(await failure { try await bucket.store.copy(overwrite) } == .notSupported)
            }
            _ = try await bucket.store.copy(CopyRequest(source, to: bucket.key("new"), condition: .absent))
            #expect(try await bucket.content("new") == [1])
        },
        Promise("Objects are copied whatever their keys are") { bucket in
            for name in bucket.oddNames where bucket.differences.keys[name] == nil {
                try await bucket.put(name, Array(name.bytes))
                let source = CopySource(bucket.key(name))
                #expect(
                    await failure { try await bucket.store.copy(CopyRequest(source, to: bucket.key("copy"))) } == nil,
                    "\(name)")
                #expect(try await bucket.content("copy") == name.bytes, "\(name)")
            }
        },
    ]
}
