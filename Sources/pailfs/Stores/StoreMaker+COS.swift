import ObjectStorage
import Providers
import Settings

extension StoreMaker {
    /// Tencent Cloud COS. A bucket's name without the account's number gets it from the user's files, if they have it.
    func cos() throws(ObjectStoreError) -> Provider {
        let sources = try request.cosCredentials()
        let appID = sources.appID
        var provider = try family(
            .cos, credentials(), endpoint: endpoint(sources.endpoint),
            region: settings.region ?? sources.region)
        provider.bucketNames.end = appID.map { .exactly("-\($0)") } ?? .anyNumber
        let open = provider.open
        provider.open = { (entry) throws(ObjectStoreError) in
            var entry = entry
            entry.name = COSEndpointRules.bucket(entry.name, appID: appID)
            return try open(entry)
        }
        return provider
    }
}
