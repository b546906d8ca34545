import Basics
import HTTP
import ObjectStorage
import Providers
import Testing

extension Promise {
    static let access: [Promise] = [
        Promise("Access is granted to who may have it and refused with the reason") { bucket in
            try await bucket.store.checkAccess()
            guard let server = bucket.fixture.server else { return }
            let missing = try server.store(bucket: "no-such-bucket")
            #expect(await failure { try await missing.checkAccess() } == .noSuchBucket)
            let stranger = try server.store(secret: "wrong")
            #expect(await failure { try await stranger.checkAccess() } == .credentialsRejected)
        },
        Promise("A presigned URL serves the object without credentials") { bucket in
            let name = "object + %"
            try await bucket.put(.init(name), [1, 2, 3])
            let url = try bucket.store.presign(bucket.key(.init(name)), lifetime: .seconds(60))
            guard let server = bucket.fixture.server else { return }
            try #require(url.hasPrefix(server.endpoint + "/"))
            let target = String(url.dropFirst(server.endpoint.count))
            let answer = try await server.engine.execute(HTTPRequest(.get, server.origin, target: target))
            #expect(answer.status == 200)
            #expect(answer.body == [1, 2, 3])
            let changed = HTTPRequest(.get, server.origin, target: target.replacing("object", with: "obiect"))
            #expect(try await server.engine.execute(changed).status == 403)
        },
    ]
}
